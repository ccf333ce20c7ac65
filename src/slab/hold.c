/* SPDX-License-Identifier: MIT */
/*
 * Looking at the slabs of a cache in use. The caller holds each slab while it looks, as who takes
 * from it would: nobody else takes then, so what is free stays free, and what is used can only
 * become free.
 *
 *   listed --off its list--> held by us --> to its list, or back to the page layer, or to nobody
 *   full   -----------------'
 *
 * Invariants
 *  H1. With the node's lock held, a full slab that nobody holds remains the cache's: to be given
 *      back it must first be listed, which takes the lock (slab.h, B4 to B6).
 *
 * Locks: OS_RANK_NODE, by try-lock and for a moment, so that a program that ends while a thread has
 * it does not wait for ever. Callers: src/debug/, src/cache/.
 */
#include "os/atomic.h"
#include "os/machine.h"
#include "slab/partial.h"
#include "slab/slab.h"

#define TRIES 200 /* of 50 us: then its holder has been stopped */

static bool lock_patiently(struct slab_node *node)
{
	for (int i = 0; i < TRIES; i++) {
		if (os_trylock(&node->lock))
			return true;
		os_sleep_briefly();
	}
	return false;
}

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

static bool hold_slab(struct slab_cache *cache, struct slab_node *node, struct slab *slab)
{
	enum held held = HELD_BY_OTHERS;

	for (int i = 0; i < TRIES && held == HELD_BY_OTHERS; i++) {
		if (!lock_patiently(node))
			return false;
		held = hold_locked(cache, node, slab);
		os_unlock(&node->lock);
		if (held == HELD_BY_OTHERS)
			os_sleep_briefly();
	}
	return held == HELD_BY_US;
}

/* True if it is an empty one that waits until it may go back. */
static bool is_empty(const struct slab *slab)
{
	return slab_inuse(os_load_relaxed(&slab->state)) == 0;
}

static unsigned int look_at_node(struct slab_cache *cache, unsigned int i, slab_look *look,
				 void *data)
{
	struct slab_node *node = os_load_acquire(&cache->nodes[i]);
	unsigned int missed = 0;
	struct slab *slab;

	if (!node || !os_load_relaxed(&node->nr_slabs))
		return 0;
	for (size_t n = page_slabs(i, &slab); n > 0; n--, slab++) {
		if (os_load_relaxed(&slab->cache) != cache ||
		    os_load_relaxed(&slab->state) & SLAB_TAIL)
			continue;
		if (!hold_slab(cache, node, slab)) {
			missed += os_load_relaxed(&slab->cache) == cache && !is_empty(slab);
			continue;
		}
		look(data, slab);
		if (!partial_let_go(cache, slab, 0))
			partial_release(cache, slab, true);
	}
	return missed;
}

unsigned int slab_for_each_held(struct slab_cache *cache, slab_look *look, void *data)
{
	unsigned int missed = 0;

	for (uint32_t i = 0; i < os.nr_nodes; i++)
		missed += look_at_node(cache, i, look, data);
	return missed;
}
