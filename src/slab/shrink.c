/* SPDX-License-Identifier: MIT */
/*
 * Shrink: free a cache's empty slabs and sort its partial ones, fullest first.
 *
 * Each slab of a node is looked at once, and goes to the end of one of these:
 *
 *   empty | 1 free object | 2 | ... | PROMOTE_MAX | more, in the order in which they were listed
 *
 * The node's lock is held for that one walk, as in the kernel: a list half of which is somewhere else
 * would look to others as if the memory in it were out.
 */
#include "os/atomic.h"
#include "os/machine.h"
#include "slab/partial.h"
#include "slab/slab.h"

/* Slabs with at most so many free objects are sorted, as in the kernel; those with more are far from full. */
#define PROMOTE_MAX 32

struct chain {
	struct slab *first, *last;
};

/* Indexed by free objects; 0: the empty slabs; PROMOTE_MAX + 1: all the others. */
struct sorted {
	struct chain chains[PROMOTE_MAX + 2];
};

static void append(struct chain *chain, struct slab *slab)
{
	slab->prev = chain->last;
	slab->next = NULL;
	if (chain->last)
		chain->last->next = slab;
	else
		chain->first = slab;
	chain->last = slab;
}

static void append_chain(struct chain *to, const struct chain *chain)
{
	if (!chain->first)
		return;
	chain->first->prev = to->last;
	if (to->last)
		to->last->next = chain->first;
	else
		to->first = chain->first;
	to->last = chain->last;
}

static unsigned int chain_of(const struct slab_cache *cache, uint64_t state)
{
	unsigned int inuse = slab_inuse(state), free = slab_order_of(cache, state).objects - inuse;

	if (!inuse)
		return 0;
	/* One that lost its free objects to corruption has none. */
	return free && free <= PROMOTE_MAX ? free : PROMOTE_MAX + 1;
}

/* With the node's lock held: sort the list, and detach the empty slabs, linked by `next`. */
static struct slab *sort(struct slab_cache *cache, struct slab_node *node)
{
	struct sorted sorted = {0};
	struct chain list = {0};
	struct slab *slab, *next;

	for (slab = node->first; slab; slab = next) {
		unsigned int chain = chain_of(cache, os_load_acquire(&slab->state));

		next = slab->next;
		append(&sorted.chains[chain], slab);
		if (chain == 0)
			partial_unlisted(node, slab);
	}
	for (unsigned int free = 1; free <= PROMOTE_MAX + 1; free++)
		append_chain(&list, &sorted.chains[free]);
	node->first = list.first;
	node->last = list.last;
	return sorted.chains[0].first;
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
			next = slab->next;
			partial_discard(cache, slab);
		}
		left += os_load_relaxed(&node->nr_slabs);
	}
	return left;
}
