/* SPDX-License-Identifier: MIT */
/*
 * The slots of guarded objects, for the files that implement guard.h. guard.h has their picture,
 * states and invariants. The notes of all slots are in a table of their own.
 *
 * Locks: none. Callers: src/debug/guard*.c, traces.c; src/cache/debugger.c;
 * src/stats/profile.c.
 */
#ifndef SHEAF_DEBUG_GUARD_SLOT_H
#define SHEAF_DEBUG_GUARD_SLOT_H

#include "debug/guard.h"
#include "debug/object.h"
#include "debug/profile.h"

#define GUARD_NEVER_USED 0
/* Slots of a chunk, at most. The slots of all chunks follow the addresses of the range, and
 * their notes follow the slots. */
#define GUARD_SLOTS 256u

struct guard_slot {
	uint32_t state;	      /* an enum debug_state, or GUARD_NEVER_USED */
	uint32_t size;	      /* requested bytes */
	uint32_t object_size; /* of its cache */
	uint32_t freed;	      /* how many frees there were, in all slots, before its own */
	struct slab_cache *cache;
	char *object;
	uint32_t owner; /* the number of the group that is charged, as in slab/owner.h */
	uint32_t next; /* of a free packed slot: the number of the next one of its class; 0: none */
};

/* Its object is in use, or waits for a grace period. */
static inline bool guard_is_live(const struct guard_slot *slot)
{
	uint32_t state = os_load_acquire(&slot->state);

	return state == DEBUG_USED || state == DEBUG_WAITS;
}

static inline bool guard_is_inside(const struct guard_slot *slot, const void *pointer)
{
	return (uintptr_t)pointer - (uintptr_t)slot->object < slot->object_size;
}

#define GUARD_NAME 32 /* bytes of a name; longer ones are cut off */

struct guard_notes {
	struct profile_row *row; /* NULL: the object is not in the heap profile */
	size_t asked;		 /* bytes, as the row knows them */
	struct debug_track tracks[NR_DEBUG_DEEDS];
	char name[GUARD_NAME];
};

/* --- guarded.c -------------------------------------------------------------------------------- */

/* Of an object in use, from its first open byte to its last. */
struct debug_zones guard_zones_of(const struct guard_slot *slot);

/* --- guard.c ---------------------------------------------------------------------------------- */

/* Claim a slot for an object of this size and alignment, open its pages, and set its object. NULL:
 * none. */
struct guard_slot *guard_claim(size_t size, size_t align, bool packed);
/* A slot for records alone. */
struct guard_slot *guard_claim_record(void);
bool guard_is_packed(const struct guard_slot *slot);
/* A slot by its number, from 1. */
uint32_t guard_number_of(const struct guard_slot *slot);
struct guard_slot *guard_slot_of(uint32_t number);
/* Close the pages of a slot that this thread owns; it is FREE. */
void guard_give(struct guard_slot *slot);

/* The slot whose pages, open or closed, contain the address, or else the two next to it. NULL: that
 * slot was never used. */
struct guard_place {
	struct guard_slot *in, *before, *after;
};
struct guard_place guard_place_of(const void *address);

struct guard_notes *guard_notes_of(const struct guard_slot *slot);
/* Of the slots that were ever used, the one after this, or, after NULL, the first one. NULL: there
 * is none. */
struct guard_slot *guard_next(const struct guard_slot *slot);
#define guard_for_each(slot)                                                                       \
	for (struct guard_slot *slot = guard_next(NULL); slot; slot = guard_next(slot))

#endif
