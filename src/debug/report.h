/* SPDX-License-Identifier: MIT */
/*
 * Reports about an object: what is wrong, which bytes show it, who allocated and freed it, and what
 * was done about it.
 *
 *   BUG cache: what | bytes that are wrong | object, state, records, a dump | fix | advice | finder
 *
 * Each has many lines (os/report/record.h): made here, written when the call leaves the library.
 *
 * Locks: none. Callers: src/debug/ only.
 */
#ifndef SHEAF_DEBUG_REPORT_H
#define SHEAF_DEBUG_REPORT_H

#include "debug/object.h"
#include "os/compiler.h"

struct os_record;

struct guard_slot;

struct debug_fault {
	const char *call;		 /* the call that found it */
	const void *pointer;		 /* and the pointer that it got */
	const char *fix;		 /* what was done about it */
	const struct slab_cache *cache;	 /* that it got, or NULL: guarded objects only */
	const struct slab_cache *holder; /* whose slab or slot the pointer is in; NULL: unknown */
	const struct guard_slot *slot;	 /* of a guarded object; NULL: it is in none */
	const void *object; /* the first byte of an object; NULL: the pointer is in none */
	/* Bytes that should all be `expected`; NULL: no bytes are wrong. */
	const uint8_t *from;
	size_t length;
	uint8_t expected;
};

/* A call with this object of the cache is ignored, unless the caller sets another fix. */
static inline struct debug_fault debug_fault_of(const struct slab_cache *cache, const void *object,
						const char *call)
{
	return (struct debug_fault){
		.call = call,
		.pointer = object,
		.fix = "the call was ignored",
		.cache = cache,
		.holder = cache,
		.object = object,
	};
}

/* `what` in the kernel's words; `advice`: where to look. */
void debug_report(const struct debug_fault *fault, const char *what, const char *advice) OS_COLD;
/* A call got an object in this state, which it cannot have; advice: NULL for a second free. */
void debug_report_state(const struct debug_fault *fault, uint32_t state,
			const char *advice) OS_COLD;
/* Which bytes were overwritten. */
enum debug_damage {
	DEBUG_LEFT_ZONE,
	DEBUG_LEFT_ZONE_GUARDED,
	DEBUG_REQUESTED_ZONE, /* after the bytes requested from kmalloc() */
	DEBUG_RIGHT_ZONE,
	DEBUG_POISON,
	DEBUG_END_POISON,
};
/* Report these bytes, which are not all fault->expected. */
void debug_report_damage(struct debug_fault *fault, const uint8_t *from, size_t length,
			 enum debug_damage damage) OS_COLD;
/* If they are not all fault->expected, report and restore them. Returns the number of faults: 0 or
 * 1. */
int debug_restore(struct debug_fault *fault, uint8_t *from, size_t length,
		  enum debug_damage damage) OS_COLD;

/* Where to look, if a call that does not free gets the pointer. */
#define DEBUG_ADVICE_OF_USE "look for a pointer to it that is used after the free"

/* --- its parts -------------------------------------------------------------------------------- */

/* Begin a report of this kind about a cache, as os_record_begin(). */
struct os_record *debug_begin(const char *name, const char *what) OS_COLD;
/* The object that this address is in or next to. The library's data and the red zone in front of an
 * object belong to it, not to the object before. In pointer.c. */
char *debug_nearest_object(const struct slab_cache *cache, const struct slab *slab,
			   const void *address);
/* Add where the address is, as seen from an object of this size. In pointer.c. */
void debug_tell_place(struct os_record *report, const char *address, const char *object,
		      size_t size);
/* Was fault->object, in a slab of fault->holder or in a slot, ever prepared? If not, it has no
 * records. */
bool debug_has_object(const struct debug_fault *fault);
/* Add the lines about fault->object: where the pointer is, its state, who allocated and freed it,
 * and a dump. */
void debug_tell_object(struct os_record *report, const struct debug_fault *fault) OS_COLD;
/* Without dump. */
void debug_tell_guarded(struct os_record *report, const struct guard_slot *slot);

/* --- pointer.c -------------------------------------------------------------------------------- */

/* Is this an object of the cache that was prepared to be handed out? False after a report. */
bool debug_is_object(struct slab_cache *cache, void *pointer, const char *call);

#endif
