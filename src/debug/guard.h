/* SPDX-License-Identifier: MIT */
/*
 * Guarded objects: each on pages of its own, between pages that fault.
 *
 * The pages lie in a range of addresses outside those of slabs. So the fast path's home test finds
 * their frees: all of them reach src/cache/'s slow calls, which ask guard_is_ours(). The range is
 * cut into chunks of 2 MiB, each into slots for objects of up to 2^k pages of the system:
 *
 *   chunk | closed | slot 0: 2^k pages | closed | slot 1 | closed | ...
 *
 *   in use, at the end    | closed ... | red zone | OBJECT | gap | red zone | closed
 *   in use, at the start  closed | OBJECT | gap | red zone | ... closed     (one in GUARD_LEFT)
 *   free                  | closed ...                                              |
 *
 * Only the pages that an object needs are opened. What is known of it lies elsewhere: a guard_slot,
 * and who allocated and freed it. The states are those of slab_debug.h:
 *
 *   (never used) --claim--> BUSY --> USED --free--> BUSY --> FREE --claim--> BUSY
 *                                     |--retire--> WAITS --after its grace period--> BUSY
 *                                                  `--the system refuses to close--> LEAKED
 *
 * Invariants
 *  G1. Who changes a slot's state to BUSY, by compare-exchange, owns it; D1 of slab_debug.h.
 *  G2. The pages of a slot are open in USED and WAITS, and closed in FREE. So an access after the
 *      free faults, until the slot is claimed again: slots that were never used come first, then
 *      of GUARD_LOOK the one that has been free longest.
 *  G3. A retired object stays open until its grace period has passed.
 *  G4. A slot belongs to its cache until the next claim, to none when the cache was freed. Its
 *      notes carry the cache's name, for reports after that.
 *  G5. Objects that may be read after their free (SLAB_TYPESAFE_BY_RCU), or that must be on one
 *      node, are never guarded.
 *
 * Locks: none, so each call works wherever the allocator does; constructors run with the slot
 * BUSY. In a forked child, slots that vanished threads had claimed stay BUSY.
 * Callers: src/cache/, src/kmalloc/ for sizes, src/stats/.
 */
#ifndef SHEAF_DEBUG_GUARD_H
#define SHEAF_DEBUG_GUARD_H

#include "debug/slab_debug.h"

/* Of so many objects one lies at the start of its pages, where a write in front of it faults. The
 * end of an object is overrun more often. */
#define GUARD_LEFT 4
/* Free slots among which the one to use again is chosen. */
#define GUARD_LOOK 16

struct guard_range {
	char *base;
	size_t size; /* 0: there is none */
};
extern struct guard_range guard_range __attribute__((visibility("hidden")));

static inline bool guard_is_ours(const void *address)
{
	return (uintptr_t)address - (uintptr_t)guard_range.base < guard_range.size;
}

/* --- guard.c ---------------------------------------------------------------------------------- */

/* Reserve the range, when the first cache wants guards. With the lock of caches held; reports are
 * deferred. */
void guard_begin(void);

/* --- guarded.c: the life of an object --------------------------------------------------------- */

/* A guarded object of the cache; constructed, if it has a constructor. NULL: no slot is free, or
 * the cache's objects cannot be guarded. */
void *guard_alloc(struct slab_cache *cache);
/* Somebody frees a pointer into the range to this cache, or, with NULL, to the one that it came
 * from. False after a report: it was ignored. */
bool guard_free(struct slab_cache *cache, void *object, bool waited, const char *call);
/* Somebody retires it; false after a report: ignore it. */
bool guard_retire(struct slab_cache *cache, void *object, const char *call);

/* The object in use that the pointer is in: its first byte; its cache, and the bytes that were
 * asked for. NULL: there is none. */
void *guard_find(const void *pointer, struct slab_cache **cache, size_t *size);
/* As debug_set_size(). */
void guard_set_size(void *object, size_t size);

/* Objects of the cache in use; the first `room` of them are listed. */
size_t guard_live(const struct slab_cache *cache, void **objects, size_t room);
/* Check the red zones of those; the number of faults, which are reported and repaired. */
int guard_verify(struct slab_cache *cache);
/* The cache ends; none of its objects is in use. */
void guard_forget(const struct slab_cache *cache);

/* --- guard_report.c --------------------------------------------------------------------------- */

/* Report a refused access to this address, if it is in or next to a guarded object; false if it is
 * not. */
bool guard_explain(const void *address, const void *context);

#endif
