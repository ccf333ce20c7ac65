/* SPDX-License-Identifier: MIT */
/* One pass over all descriptors; see stats.h. */
#include "stats/stats.h"

#include <stdlib.h>

#include "os/atomic.h"
#include "os/machine.h"
#include "os/sort.h"

static int by_cache(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t)((const struct stats_slabs *)a)->cache;
	uintptr_t y = (uintptr_t)((const struct stats_slabs *)b)->cache;

	return x < y ? -1 : x > y;
}

static void add_slab(const struct stats_slabs *of, uint64_t state)
{
	struct slab_order order = state & SLAB_SMALL ? of->min : of->oo;
	unsigned int inuse = slab_inuse(state);

	of->out->slabs++;
	of->out->partial += (state & SLAB_LISTED) != 0;
	inuse = inuse < order.objects ? inuse : order.objects;
	of->out->objects += inuse;
	of->out->objects_partial += state & SLAB_LISTED ? inuse : 0;
	of->out->total_objects += order.objects;
	of->out->slab_bytes += OS_PAGE << order.order;
}

static void add_slabs(const struct stats_slabs *of, size_t n)
{
	const struct stats_slabs *found = of; /* neighbours often have the same cache */
	struct slab *slab;

	page_for_each_slab (slab) {
		const struct stats_slabs wanted = {.cache = os_load_relaxed(&slab->cache)};
		uint64_t state;

		if (!wanted.cache)
			continue;
		state = os_load_acquire(&slab->state);
		if (state & SLAB_TAIL)
			continue;
		if (!found || found->cache != wanted.cache)
			found = bsearch(&wanted, of, n, sizeof(*of), by_cache);
		if (found)
			add_slab(found, state);
	}
}

void stats_add_slabs(struct stats_slabs *of, size_t n)
{
	os_sort(of, n, sizeof(*of), by_cache);
	if (n)
		add_slabs(of, n);
}
