/* SPDX-License-Identifier: MIT */
/*
 * Examines the slabs of a cache that is in use, one after the other.
 *
 * A thread that examines a slab holds it, as a thread that takes objects from it does. Meanwhile no
 * other thread takes objects from it: free objects stay free; used ones may be freed.
 *
 *   on its node's list  --removed--.
 *   full, on no list    --marked----> held by us --> listed again, full again, or, if it is empty,
 *                                                    returned to the page layer
 *
 * If another thread holds a slab, this thread waits for it. If that takes too long, the slab is
 * left out, and counted.
 *
 * Invariants
 *  HOLD-H1. While this thread has the lock of a full slab's node, and no thread holds the slab, the
 *      slab belongs to the cache: it must be listed before it is given back, and that takes the
 *      lock. Argued: by SLAB-B4, SLAB-B5 and SLAB-B6.
 *  HOLD-H2. A held slab may be empty, or have the object that another thread needs. So it counts as
 *      memory that this thread is returning (page/limit.h): an allocation that would fail waits for
 *      it, and no thread holds a further one until that allocation has looked everywhere.
 *
 * Locks: OS_RANK_NODE, by try-lock and for a moment. If the lock's holder was stopped, for example
 * at the end of the program, this gives up after a while. Callers: src/debug/, src/cache/, through
 * slab.h.
 */
#include "os/atomic.h"
#include "os/machine.h"
#include "page/limit.h"
#include "slab/partial.h"
#include "slab/slab.h"

#define TRIES 200 /* with pauses of 50 us; then the holder counts as stopped */

enum held {
	HELD_BY_US,
	HELD_BY_OTHERS,
	NOT_OURS
};

/* With the lock of its node held. */
static enum held hold_locked(struct slab_cache *cache, struct slab_node *node, struct slab *slab)
{
	uint64_t state = os_load_acquire(&slab->state);

	if (os_load_acquire(&slab->cache) != cache || state & SLAB_TAIL)
		return NOT_OURS;
	if (state & SLAB_LISTED) {
		partial_remove(node, slab);
		return HELD_BY_US;
	}
	if (state & SLAB_HELD || slab_free(cache, state) ||
	    !os_cmpxchg(&slab->state, &state, state | SLAB_HELD))
		return HELD_BY_OTHERS;
	return HELD_BY_US;
}

/* Returns what page_end_return() needs, or NULL. */
static uint32_t *hold_slab(struct slab_cache *cache, struct slab_node *node, struct slab *slab)
{
	for (int i = 0; i < TRIES; i++, os_sleep_briefly()) {
		uint32_t *returning;
		enum held held;

		if (!os_trylock(&node->lock))
			continue;
		returning = page_begin_return();
		held = page_sees_last_look() ? HELD_BY_OTHERS : hold_locked(cache, node, slab);
		os_unlock(&node->lock);
		if (held == HELD_BY_US)
			return returning;
		page_end_return(returning);
		if (held == NOT_OURS)
			break;
	}
	return NULL;
}

static unsigned int examine_node(struct slab_cache *cache, struct slab_node *node, slab_look *look,
				 void *data)
{
	unsigned int missed = 0;
	uint32_t *returning;
	struct slab *slab;

	for (size_t n = partial_slabs(node, &slab); n > 0; n--, slab++) {
		if (os_load_relaxed(&slab->cache) != cache ||
		    os_load_relaxed(&slab->state) & SLAB_TAIL)
			continue;
		returning = hold_slab(cache, node, slab);
		if (!returning) {
			/* An empty slab that another thread holds is about to be given back. */
			missed += os_load_relaxed(&slab->cache) == cache &&
				  slab_inuse(os_load_relaxed(&slab->state)) != 0;
			continue;
		}
		look(data, slab);
		if (!partial_let_go(cache, slab, 0))
			partial_release(cache, slab, true);
		page_end_return(returning);
	}
	return missed;
}

unsigned int slab_for_each_held(struct slab_cache *cache, slab_look *look, void *data)
{
	struct slab_node *node;
	unsigned int missed = 0;

	slab_for_each_node (cache, node)
		if (os_load_relaxed(&node->nr_slabs))
			missed += examine_node(cache, node, look, data);
	return missed;
}
