/* SPDX-License-Identifier: MIT */
/*
 * Guarded objects: each on pages of its own, between pages that fault.
 *
 * The pages lie in a range of addresses outside those of slabs. So frees of guarded objects fail
 * the fast path's home test, and all reach src/cache/'s slow calls, which ask guard_is_ours(). The
 * range is cut into chunks of 2 MiB, each into slots for objects of up to 2^k pages of the system:
 *
 *   chunk | closed | slot 0: 2^k pages | closed | slot 1 | closed | ...
 *
 *   in use, at the end    | closed ... | red zone | OBJECT | gap | red zone | closed
 *   in use, at the start  closed | OBJECT | gap | red zone | ... closed     (one in GUARD_LEFT)
 *   free                  | closed ...                                              |
 *
 * Only the pages that an object needs are opened. Its records lie elsewhere: a guard_slot, and
 * notes that say who allocated and freed it. The states are those of slab_debug.h:
 *
 *   (never used) --claim--> BUSY --> USED --free--> BUSY --> FREE --claim--> BUSY
 *                                     |--retire--> WAITS --after its grace period--> BUSY
 *                                                  `--the system refuses to close--> LEAKED
 *
 * Samples that only the heap profile needs (debug/profile.h) lie in packed slots, of 2^k bytes, in
 * chunks without closed pages. Of these slots, the one that was freed last is claimed first.
 * Samples of large blocks have a slot only for their records.
 *
 * Invariants
 *  GUARD-G1. The thread that changes a slot's state to BUSY, by compare-exchange, owns the slot:
 *      SLAB_DEBUG-D1 of slab_debug.h.
 *  GUARD-G2. The pages of a slot are open in USED and WAITS, and closed in FREE, unless it is
 *      packed. So an access after the free faults, until the slot is claimed again. Slots that were
 *      never used are claimed first; then, of GUARD_LOOK slots, the one that has been free longest.
 *  GUARD-G3. A retired object stays open until its grace period has passed.
 *  GUARD-G4. A slot belongs to its cache until it is claimed again or the cache is freed. Its notes
 *      contain the cache's name, for later reports.
 *  GUARD-G5. Objects that may be read after their free (SLAB_TYPESAFE_BY_RCU), or that must be on
 *      one node, are never guarded.
 *
 * Locks: none, so each call works wherever the allocator does; constructors run with the slot
 * BUSY. In a forked child, slots that vanished threads had claimed stay BUSY.
 * Callers: src/cache/, src/kmalloc/ for sizes, src/stats/.
 */
#ifndef SHEAF_DEBUG_GUARD_H
#define SHEAF_DEBUG_GUARD_H

#include "debug/slab_debug.h"
#include "slab/owner.h"

/* One object in this many lies at the start of its pages, where a write in front of it faults.
 * Writes past the end are more common. */
#define GUARD_LEFT 4
/* So many slots are compared to choose the one that is used again. */
#define GUARD_LOOK 16

struct guard_range {
	char *base;  /* before there is a range, an address that is above all others */
	size_t size; /* 0: there is none */
};
extern struct guard_range guard_range __attribute__((visibility("hidden")));

static inline bool guard_is_ours(const void *address)
{
	/* Whoever has such an object sees both; to others the two may come in any order. */
	return (uintptr_t)address - (uintptr_t)os_load_relaxed(&guard_range.base) <
	       os_load_relaxed(&guard_range.size);
}

/* --- guard.c ---------------------------------------------------------------------------------- */

/* Reserve the range, for the first cache with guards. The lock of caches is held; reports are
 * deferred. */
void guard_begin(void);
/* Bytes of samples without closed pages, in use or free. */
size_t guard_held(void);

/* --- guarded.c: the life of an object --------------------------------------------------------- */

/* A guarded object of the cache; constructed, if it has a constructor. With a group
 * (profile.h), the heap profile has it, and unless slab_debug=S is in force, no pages around it are
 * closed. NULL: no slot is free, or the cache's objects cannot be guarded. */
void *guard_alloc(struct slab_cache *cache, const char *group);
/* Free a pointer into the range to this cache, or, with NULL, to the cache that it came from. False
 * after a report: the free was ignored. clears: the object's bytes are cleared. */
bool guard_free(struct slab_cache *cache, void *object, bool waited, bool clears, const char *call);
/* Retire an object. False after a report: ignore it. */
bool guard_retire(struct slab_cache *cache, void *object, const char *call);
/* As debug_is_used(), for a pointer into the range. */
bool guard_is_used(void *object, bool retired, const char *call);

/* The object in use that contains the pointer: its first byte, its cache, and its requested size.
 * NULL: there is none. */
void *guard_find(const void *pointer, struct slab_cache **cache, size_t *size);
/* The place of the number of an object's owner, if this is the first byte of an object in use;
 * else NULL. See slab/owner.h. */
uint32_t *guard_owner(const void *object);
/* Call look(data, cache, number) for each object that has a number. */
void guard_for_each_owned(owner_look *look, void *data);
/* As debug_set_size(). */
void guard_set_size(void *object, size_t size);
/* Tell the heap profile how many bytes the program asked for. Any address is allowed. */
void guard_tell_asked(void *object, size_t size);
static inline void guard_set_asked(void *object, size_t size)
{
	if (os_unlikely(guard_is_ours(object)))
		guard_tell_asked(object, size);
}

/* Record a large block that the heap profile samples, by its class and the bytes that the program
 * asked for. Returns the number of the record; 0: there is no room. */
uint32_t guard_record(struct slab_cache *cache, const char *group, void *block, size_t class,
		      size_t asked);
void guard_record_asked(uint32_t number, size_t asked);
/* The block waits for a grace period from now on. */
void guard_record_retired(uint32_t number);
void guard_record_end(uint32_t number);

/* Count the objects of the cache in use, and list the first `room` of them. */
size_t guard_live(const struct slab_cache *cache, void **objects, size_t room);
/* Check their red zones. Returns the number of faults, which are reported and repaired. */
int guard_verify(struct slab_cache *cache);
/* The cache ends; none of its objects is in use. */
void guard_forget(const struct slab_cache *cache);

/* --- guard_report.c --------------------------------------------------------------------------- */

/* Report a refused access to this address, if it is in or next to a guarded object; false if it is
 * not. */
bool guard_explain(const void *address, const void *context);

#endif
