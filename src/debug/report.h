/* SPDX-License-Identifier: MIT */
/*
 * Reports about an object: what is wrong, which bytes show it, who allocated and freed it, and what
 * was done about it.
 *
 *   BUG cache: what | bytes that are wrong | object, state, records, a dump | fix | advice | finder
 *
 * Each is a long report (os/long_report.h): made here, written when the call leaves the library.
 *
 * Locks: none. Callers: src/debug/check.c, zones.c, pointer.c, explain.c, validate.c;
 * guarded.c and guard_report.c for parts of it.
 */
#ifndef SHEAF_DEBUG_REPORT_H
#define SHEAF_DEBUG_REPORT_H

#include "debug/object.h"

struct os_long;

struct debug_fault {
	const char *what;   /* in the kernel's words */
	const char *advice; /* where to look */
	const char *fix;    /* what was done about it */
	const char *call;   /* the call that found it */
	void *pointer;	    /* and the pointer that it got */
	struct slab_cache *cache;
	void *object; /* the first byte of an object of `holder`; NULL: the pointer is in none */
	struct slab_cache *holder;
	/* Bytes that should all be `expected`; NULL: no bytes are wrong. */
	const uint8_t *from;
	size_t length;
	uint8_t expected;
};

/* A fault in an object of this cache. */
static inline struct debug_fault debug_fault_of(struct slab_cache *cache, void *object,
						const char *call)
{
	return (struct debug_fault){
		.call = call,
		.pointer = object,
		.cache = cache,
		.object = object,
		.holder = cache,
	};
}

void debug_report(const struct debug_fault *fault) __attribute__((cold));

/* --- its parts -------------------------------------------------------------------------------- */

/* The bytes of an object and of the red zones next to it. Those at `from` should all be `expected`;
 * NULL: no bytes are wrong. */
struct debug_bytes {
	const uint8_t *object;
	size_t left, size, right;
	const uint8_t *from;
	size_t length;
	uint8_t expected;
};

/* Begin a report of this kind about a cache, as os_long_begin(). */
struct os_long *debug_begin(const char *name, const char *what) __attribute__((cold));
/* Lines: which bytes are wrong; the bytes near them; the name of an enum debug_state; which call
 * found it, with the stack. */
void debug_tell_wrong(struct os_long *report, const struct debug_bytes *bytes);
void debug_dump(struct os_long *report, const struct debug_bytes *bytes);
const char *debug_state_name(uint32_t state);
void debug_tell_finder(struct os_long *report, const char *call, const char *name,
		       const void *pointer);
/* What is wrong with a free of an object in this state, and where to look. */
const char *debug_what_of_double(uint32_t state);
const char *debug_advice_of_double(uint32_t state);
/* Where to look, if another call gets the pointer. */
#define DEBUG_ADVICE_OF_USE "look for a pointer to it that is used after the free"
/* The object that this address is in or next to. The library's data and the red zone in front of an
 * object belong to it, not to the object before. In explain.c. */
char *debug_nearest_object(const struct slab_cache *cache, const struct slab *slab,
			   const void *address);
/* Add where the address is, as seen from an object of this size. In explain.c. */
void debug_tell_place(struct os_long *report, const char *address, const char *object, size_t size);
/* Was fault->object, in a slab of fault->holder, ever prepared? If not, it has no records. */
bool debug_has_object(const struct debug_fault *fault);
/* Add the lines about fault->object, which is in a slab of fault->holder: where the pointer is, its
 * state, who allocated and freed it, and a dump. */
void debug_tell_object(struct os_long *report, const struct debug_fault *fault)
	__attribute__((cold));

/* --- pointer.c -------------------------------------------------------------------------------- */

/* Is this an object of the cache that was prepared to be handed out? False after a report. */
bool debug_is_object(struct slab_cache *cache, void *pointer, const char *call);

#endif
