/* SPDX-License-Identifier: MIT */
/* Shrink: free a cache's empty slabs and sort its partial ones, fullest first. */
#include "os/atomic.h"
#include "os/machine.h"
#include "slab/partial.h"
#include "slab/slab.h"

#define PROMOTE_MAX 32 /* slabs with at most so many free objects are worth sorting */

/* Move the slabs with `free` free objects to the front. */
static void promote(struct slab_cache *cache, struct slab_node *node, unsigned int free)
{
	struct slab *slab, *next;

	for (slab = node->first; slab; slab = next) {
		uint64_t state = os_load_relaxed(&slab->state);

		next = slab->next;
		if (slab_order_of(cache, state).objects - slab_inuse(state) != free)
			continue;
		partial_remove(node, slab);
		partial_add_first(node, slab);
	}
}

/* Detach the empty ones. */
static struct slab *detach_empty(struct slab_node *node)
{
	struct slab *empty = NULL, *slab, *next;

	for (slab = node->first; slab; slab = next) {
		next = slab->next;
		if (slab_inuse(os_load_acquire(&slab->state)))
			continue;
		partial_remove(node, slab);
		slab->next = empty;
		empty = slab;
	}
	return empty;
}

unsigned int slab_shrink(struct slab_cache *cache)
{
	unsigned int left = 0;

	for (uint32_t i = 0; i < os.nr_nodes; i++) {
		struct slab_node *node = os_load_acquire(&cache->nodes[i]);
		struct slab *slab, *next;

		if (!node)
			continue;
		os_lock(&node->lock);
		slab = detach_empty(node);
		for (unsigned int free = PROMOTE_MAX; free > 0; free--)
			promote(cache, node, free);
		os_unlock(&node->lock);
		for (; slab; slab = next) {
			next = slab->next;
			partial_discard(cache, slab);
		}
		left += os_load_relaxed(&node->nr_slabs);
	}
	return left;
}
