/* SPDX-License-Identifier: MIT */
/*
 * Shrink: free a cache's empty slabs and sort its partial ones, fullest first.
 *
 * Each slab of a node is visited once, and goes to the end of one of these:
 *
 *   empty | 1 free object | 2 | ... | PROMOTE_MAX | more, in the order in which they were listed
 *
 * The node's lock is held for the whole walk, as in the kernel. If the list were split in between,
 * other threads would see too little free memory.
 */
#include "os/atomic.h"
#include "os/machine.h"
#include "slab/pages.h"
#include "slab/partial.h"
#include "slab/slab.h"

/*
 * Slabs with at most this number of free objects are sorted, as in the kernel; those with more are
 * far from full.
 */
#define PROMOTE_MAX 32
#define NR_CHAINS   (PROMOTE_MAX + 2) /* by free objects; 0: empty slabs; the last: all others */

static unsigned int chain_of(const struct slab_cache *cache, uint64_t state)
{
	unsigned int free = slab_free(cache, state);

	if (!slab_inuse(state))
		return 0;
	/* A listed slab that just became full has none. */
	return free && free <= PROMOTE_MAX ? free : PROMOTE_MAX + 1;
}

static void link_last(struct slab_node *node, struct slab *slab)
{
	uint32_t link = partial_link(node, slab);

	slab->prev = node->last;
	slab->next = SLAB_NONE;
	*(node->last == SLAB_NONE ? &node->first : &node->base[node->last].next) = link;
	node->last = link;
}

/* With the node's lock held: sort the list, and detach the empty slabs, linked by `next`. */
static struct slab *sort(struct slab_cache *cache, struct slab_node *node)
{
	struct slab *chains[NR_CHAINS] = {NULL}, *slab, *next;

	/* From the end, so that each chain has the list's order. */
	for (slab = partial_slab(node, node->last); slab; slab = next) {
		unsigned int chain = chain_of(cache, os_load_acquire(&slab->state));

		next = partial_slab(node, slab->prev);
		slab->next = partial_link(node, chains[chain]);
		chains[chain] = slab;
		if (chain == 0)
			partial_unlisted(node, slab);
	}
	node->first = node->last = SLAB_NONE;
	for (unsigned int chain = 1; chain < NR_CHAINS; chain++)
		for (slab = chains[chain]; slab; slab = next) {
			next = partial_slab(node, slab->next);
			link_last(node, slab);
		}
	return chains[0];
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
		slab = sort(cache, node);
		os_unlock(&node->lock);
		for (; slab; slab = next) {
			next = partial_slab(node, slab->next);
			slab_discard(cache, slab);
		}
		left += os_load_relaxed(&node->nr_slabs);
	}
	return left;
}

/* With the node's lock held: detach the empty slabs, linked by `next`. */
static struct slab *detach_empty(struct slab_node *node)
{
	struct slab *empty = NULL, *slab, *next;

	for (slab = partial_slab(node, node->first); slab; slab = next) {
		next = partial_slab(node, slab->next);
		if (slab_inuse(os_load_acquire(&slab->state)))
			continue;
		partial_remove(node, slab);
		slab->next = partial_link(node, empty);
		empty = slab;
	}
	return empty;
}

void slab_free_kept(struct slab_cache *cache)
{
	for (uint32_t i = 0; i < os.nr_nodes; i++) {
		struct slab_node *node = os_load_acquire(&cache->nodes[i]);
		struct slab *slab, *next;

		/* A longer list keeps no empty slab (partial_is_surplus()), and takes longer. */
		if (!node || !os_load_relaxed(&node->nr_partial) ||
		    os_load_relaxed(&node->nr_partial) > cache->min_partial ||
		    !os_trylock(&node->lock))
			continue;
		slab = detach_empty(node);
		os_unlock(&node->lock);
		for (; slab; slab = next) {
			next = partial_slab(node, slab->next);
			slab_discard(cache, slab);
		}
	}
}
