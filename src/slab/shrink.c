/* SPDX-License-Identifier: MIT */
/*
 * Shrink: free a cache's empty slabs, which end the lists of its nodes. The others are not visited
 * or sorted: however long a list is, a node's lock is held for SLAB_STEP slabs at a time. So that
 * more of them become empty, the next slabs that are listed go first (partial.h).
 */
#include "os/atomic.h"
#include "os/machine.h"
#include "slab/drain_marks.h"
#include "slab/partial.h"
#include "slab/slab.h"

/* Returns the number of freed slabs, SLAB_STEP at most. With the node's lock held, which is
 * released. */
static unsigned int free_unused(struct slab_cache *cache, struct slab_node *node)
{
	struct slab *slab = partial_detach_unused(cache, node), *next;
	unsigned int n = 0;

	os_unlock(&node->lock);
	for (; slab; slab = next, n++) {
		next = partial_slab(node, slab->next);
		slab_discard(cache, slab);
	}
	return n;
}

unsigned int slab_shrink(struct slab_cache *cache)
{
	struct slab_node *node;
	unsigned int n;

	slab_clear(cache, MARK_EMPTY);
	slab_for_each_node (cache, node) {
		/* A stray that one more has joined meanwhile was not freed. */
		do {
			partial_find_strays(cache, node, true);
			os_lock(&node->lock);
			node->ahead = os_load_relaxed(&node->nr_slabs);
			n = free_unused(cache, node);
		} while (n == SLAB_STEP || os_load_relaxed(&node->stray) != SLAB_NONE);
	}
	return slab_count(cache);
}

unsigned int slab_count(const struct slab_cache *cache)
{
	const struct slab_node *node;
	unsigned int n = 0;

	slab_for_each_node (cache, node)
		n += os_load_relaxed(&node->nr_slabs);
	return n;
}

void slab_free_kept(struct slab_cache *cache)
{
	struct slab_node *node;
	struct slab *slabs;

	slab_for_each_node (cache, node) {
		if (!os_load_relaxed(&node->nr_unused) &&
		    os_load_relaxed(&node->stray) == SLAB_NONE)
			continue;
		if (partial_slabs(node, &slabs) <= SLAB_SEARCH_MOST)
			partial_find_strays(cache, node, false);
		if (os_trylock(&node->lock))
			free_unused(cache, node);
	}
}

unsigned int slab_kept(const struct slab_cache *cache)
{
	const struct slab_node *node;
	unsigned int n = 0;

	slab_for_each_node (cache, node)
		n += os_load_relaxed(&node->nr_unused);
	return n;
}
