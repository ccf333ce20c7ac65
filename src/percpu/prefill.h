/* SPDX-License-Identifier: MIT */
/*
 * Prefilled sheaves: whole sheaves lent to a user, whose next allocations pop from private memory.
 *
 *   spare, barn, pool --lend--> the user's hands --return--> spare, barn
 *
 * Invariants
 *  PREFILL-F1. A lent sheaf is in no slot and no cell, and its objects are allocated, so none of
 *      them is in hand (SHEAF-H3). Until the sheaf is returned, `lent_by` is its cache's handle, or
 *      the address one byte after it, which the inlined pop does not recognize; then it is NULL.
 *  PREFILL-F2. The section that takes a sheaf out of a slot lends it, as a pop does with objects.
 *  PREFILL-F3. A sheaf whose capacity is not the cache's (an oversize one, or one of an old
 *      capacity) is emptied and freed when it is returned, never parked (SHEAF-H4). SHEAF_OVERSIZE
 *      in the capacity of an oversize one differs from every capacity that the cache may get
 *      meanwhile.
 *  PREFILL-F4. Its objects count as alloc_fastpath when they move into it from a sheaf or a slab,
 *      and as free_fastpath when they are returned.
 *
 * Locks: only the slab layer's. Callers: src/cache/prefill.c.
 */
#ifndef SHEAF_PERCPU_PREFILL_H
#define SHEAF_PERCPU_PREFILL_H

#include "percpu/rows.h"
#include "percpu/sheaf.h"
#include "slab/drain_marks.h"

/* Objects of the largest oversize sheaf. */
#define PREFILL_MAX (SHEAF_OVERSIZE - 1)

/*
 * Lend a sheaf with room for n objects (at most the cache's capacity), with any number of objects
 * in it: the lent `spare`; this CPU's partial sheaf; a full one from the barn, or one whose grace
 * period has passed; an empty one. NULL: no memory.
 */
struct sheaf *prefill_lend(struct sheaf_cache *cache, struct sheaf *spare, unsigned int n);
/* Lend an empty one with room for n, from the pool. */
struct sheaf *prefill_lend_oversize(struct sheaf_cache *cache, unsigned int n);

/* Fill a lent sheaf to n objects, from main, the barn, and then the slabs: with as many as there
 * are, until it is full, or has n if it cannot be parked later. Returns its number of objects. Runs
 * constructors. */
unsigned int prefill_fill(struct sheaf_cache *cache, struct sheaf *sheaf, unsigned int n);

/* Returned by the user: it goes to the barn. */
void prefill_return(struct sheaf_cache *cache, struct sheaf *sheaf);

/* Where events are counted. */
void prefill_count_lent_spare(struct sheaf_cache *cache, struct sheaf *spare) OS_COLD;
void prefill_count_returned_spare(struct sheaf_cache *cache, uint32_t size) OS_COLD;

/* This CPU's spare as it is, or NULL. The section that takes the sheaf allocates its objects
 * (PREFILL-F2), so a drain need not wait for this thread. */
static inline struct sheaf *prefill_lend_spare(struct sheaf_cache *cache)
{
	struct sheaf *spare = NULL;

	if (!section_replace_spare(&cache->at, NULL, &spare) || !spare || spare == &sheaf_bootstrap)
		return NULL;
	if (os_unlikely(os.counting))
		prefill_count_lent_spare(cache, spare);
	os_store_relaxed(&spare->filled_by, 0);
	spare->lent_by = cache->at.handle;
	return spare;
}

/* Returned by the user: it becomes the spare, if the slot has none. */
static inline bool prefill_return_spare(struct sheaf_cache *cache, struct sheaf *sheaf)
{
	uint32_t size = sheaf->size;

	if (!sheaf_fits(cache, sheaf))
		return false;
	/* Once it is in the slot, we must not change it. */
	sheaf_set_size(sheaf, size);
	sheaf_arm(cache, sheaf);
	sheaf->lent_by = NULL;
	if (!section_put_spare(&cache->at, sheaf)) {
		sheaf->lent_by = cache->at.handle;
		return false;
	}
	/* Not before: no drain waits for this thread (MARKS-F2). */
	slab_mark(&cache->slab, MARK_SHEAVES);
	if (os_unlikely(os.counting))
		prefill_count_returned_spare(cache, size);
	return true;
}

/* Let each pop of this lent sheaf be a call. */
static inline void prefill_hide(struct sheaf_cache *cache, struct sheaf *sheaf)
{
	sheaf->lent_by = cache->at.handle + 1;
}

static inline bool prefill_is_lent(const struct sheaf_cache *cache, const struct sheaf *sheaf)
{
	return sheaf->lent_by == cache->at.handle || sheaf->lent_by == cache->at.handle + 1;
}

/* Take its newest object, or return NULL. Only its owner changes the sheaf; others may read its
 * word. */
static inline void *prefill_pop(struct sheaf *sheaf)
{
	uint32_t size = sheaf->size;

	if (!size)
		return NULL;
	os_store_relaxed(&sheaf->word, size - 1);
	return sheaf->objects[size - 1];
}

#endif
