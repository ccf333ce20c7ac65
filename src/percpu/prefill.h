/* SPDX-License-Identifier: MIT */
/*
 * Prefilled sheaves: whole sheaves lent to a user, whose next allocations are pops of private memory.
 *
 *   spare, barn, pool --lend--> the user's hands --return--> spare, barn, slabs and pool
 *
 * Invariants
 *  F1. A lent sheaf is in no slot and no cell, and its objects are allocated: nothing of it is in
 *      hand (H3). `lent_by` is its cache's handle, and nobody, from the moment it is returned.
 *  F2. One that came from a slot is lent by the section that takes it out, like popped objects.
 *  F3. A sheaf of a capacity that is not the cache's (oversize, or of an old one) is emptied and freed
 *      when it is returned, never parked (H4).
 *  F4. Its objects count as alloc_fastpath when they come into it from a sheaf or a slab, and as
 *      free_fastpath when they are returned.
 *
 * Locks: none but the slab layer's. Callers: src/cache/prefill.c.
 */
#ifndef SHEAF_PERCPU_PREFILL_H
#define SHEAF_PERCPU_PREFILL_H

#include "percpu/sheaf.h"

/* Largest oversize sheaf: what the pool has in one block. */
#define PREFILL_MAX ((((size_t)2 << 20) - SHEAF_HEADER) / sizeof(void *))

/* This CPU's spare as it is, or NULL. */
struct sheaf *prefill_lend_spare(struct sheaf_cache *cache);
/* The user's no longer: the spare, if the slot has none. */
bool prefill_return_spare(struct sheaf_cache *cache, struct sheaf *sheaf);

/*
 * A lent sheaf with room for n objects (at most the cache's capacity), with as many in it as there
 * happen to be: this one that was the spare, if there is one and it has room; else of the barn or the
 * pool. NULL: no memory for one.
 */
struct sheaf *prefill_lend(struct sheaf_cache *cache, struct sheaf *spare, unsigned int n);
/* An empty one with room for n, from the pool. */
struct sheaf *prefill_lend_oversize(struct sheaf_cache *cache, unsigned int n);

/* Objects from main, or else from the slabs, into a lent sheaf: until it is full, or has n if it cannot be parked later.
 * How many it has then. Runs constructors. */
unsigned int prefill_fill(struct sheaf_cache *cache, struct sheaf *sheaf, unsigned int n);

/* The user's no longer. May the library fill it up for the barn, if there is no better place? */
void prefill_return(struct sheaf_cache *cache, struct sheaf *sheaf, bool may_fill);

static inline bool prefill_is_lent(const struct sheaf_cache *cache, const struct sheaf *sheaf)
{
	return sheaf->lent_by == cache->at.handle;
}

/* Its newest object, or NULL. Nobody else changes the sheaf; others may look at its word. */
static inline void *prefill_pop(struct sheaf *sheaf)
{
	uint32_t size = sheaf->size;

	if (!size)
		return NULL;
	os_store_relaxed(&sheaf->word, size - 1);
	return sheaf->objects[size - 1];
}

#endif
