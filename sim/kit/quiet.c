/* SPDX-License-Identifier: MIT */
/* Slabs of a quiet cache; see quiet.h. */
#include "sim/kit/quiet.h"

#include "os/machine.h"
#include "percpu/barn/barn.h"
#include "percpu/remote.h"
#include "percpu/rows.h"
#include "percpu/sheaf.h"
#include "sim/sim.h"
#include "slab/drain_marks.h"
#include "slab/partial.h"
#include "slab/rcu_free_slab.h"

static unsigned int nr_bits(const struct slab_cache *cache, struct slab *slab)
{
	const uint64_t *words = slab_words(cache, slab);
	unsigned int n = 0;

	for (unsigned int i = 0; i < slab_nr_words(cache, slab->state); i++)
		n += (unsigned int)__builtin_popcountll(words[i]);
	return n;
}

static void check_slab(const struct slab_cache *cache, struct slab *slab)
{
	uint64_t state = slab->state;
	unsigned int objects = slab_order_of(cache, state).objects, free = nr_bits(cache, slab);

	if (free + slab_inuse(state) != objects)
		sim_fail("a slab of %u objects has %u bits and counts %u", objects, free,
			 slab_inuse(state));
	/* A slab that waits for a grace period stays held. */
	if (cache->late && free == objects)
		return;
	if (state & SLAB_HELD)
		sim_fail("a slab is held when everything is quiet");
	if (!(state & SLAB_LISTED) != !free)
		sim_fail("a slab with %u free objects is %slisted", free,
			 state & SLAB_LISTED ? "" : "not ");
}

static void check_list(const struct slab_cache *cache, const struct slab_node *node,
		       unsigned int nr_listed)
{
	const struct slab *slab, *before = NULL, *unused = partial_slab(node, node->unused);
	unsigned int n = 0, nr_unused = 0;

	for (slab = partial_slab(node, node->first); slab && n <= nr_listed; n++) {
		if (slab->cache != cache || !(slab->state & SLAB_LISTED) ||
		    partial_slab(node, slab->prev) != before)
			sim_fail("slab %u of a list is not linked as it should be", n);
		/* See SLAB-B9. */
		nr_unused += slab == unused || nr_unused;
		if (!(slab->state & SLAB_UNUSED) != !nr_unused)
			sim_fail("slab %u of a list is unused, or not, in the wrong place", n);
		if (nr_unused ? slab_inuse(slab->state)
			      : !slab_inuse(slab->state) && node->stray == SLAB_NONE)
			sim_fail("slab %u has %u objects in use", n, slab_inuse(slab->state));
		before = slab;
		slab = partial_slab(node, slab->next);
	}
	if (n != nr_listed || partial_slab(node, node->last) != before || n != node->nr_partial)
		sim_fail("%u slabs are listed, %u on the list, %u counted", nr_listed, n,
			 node->nr_partial);
	if (nr_unused != node->nr_unused)
		sim_fail("%u slabs of a list are empty, %u counted", nr_unused, node->nr_unused);
}

static unsigned int check_node(const struct slab_cache *cache, unsigned int node)
{
	unsigned int nr_slabs = 0, nr_listed = 0, in_use = 0;
	struct slab *slab;

	for (size_t n = page_slabs(node, &slab); n > 0; n--, slab++) {
		if (slab->cache != cache || slab->state & SLAB_TAIL)
			continue;
		check_slab(cache, slab);
		nr_slabs++;
		nr_listed += (slab->state & SLAB_LISTED) != 0;
		in_use += slab_inuse(slab->state);
	}
	if (cache->nodes[node])
		check_list(cache, cache->nodes[node], nr_listed);
	if (nr_slabs != (cache->nodes[node] ? cache->nodes[node]->nr_slabs : 0))
		sim_fail("node %u: there are %u slabs", node, nr_slabs);
	return in_use;
}

unsigned int quiet_slabs(const struct slab_cache *cache)
{
	unsigned int in_use = 0;

	for (unsigned int node = 0; node < os.nr_nodes; node++)
		in_use += check_node(cache, node);
	return in_use;
}

void quiet_marks(struct sheaf_cache *cache)
{
	bool has_sheaf = false, has_empty = false;

	for (unsigned int node = 0; node < os.nr_nodes; node++)
		has_empty |= cache->slab.nodes[node] && cache->slab.nodes[node]->nr_unused;
	if (has_empty && !(cache->slab.marks & MARK_EMPTY))
		sim_fail("a node keeps an empty slab, and nothing says so");
	if (!cache->barns)
		return;
	barn_for_each_cell (cache, cell)
		has_sheaf |= *cell & BARN_FULL && barn_sheaf(*cell)->size;
	rows_for_each (cache->at.handle, row) {
		const struct slot *slot = slot_of_row(cache->at.handle, row);
		uintptr_t spare = (uintptr_t)slot->main ^ slot->pair;

		has_sheaf |= slot->main != &sheaf_bootstrap || slot_has_remote(slot, false) ||
			     (spare && spare != (uintptr_t)&sheaf_bootstrap);
	}
	if (has_sheaf && !(cache->slab.marks & MARK_SHEAVES))
		sim_fail("a slot or a barn has a sheaf, and nothing says so");
}
