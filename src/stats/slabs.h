/* SPDX-License-Identifier: MIT */
/*
 * The slabs of many caches, in one pass over the descriptors of all pages: in a heap of 10 TiB
 * these are 80 GiB, and a pass takes seconds, so there must not be one for each cache.
 *
 * Locks: none. Callers: src/stats/read.c.
 */
#ifndef SHEAF_STATS_SLABS_H
#define SHEAF_STATS_SLABS_H

#include "cache/cache.h"
#include <sheaf/stats.h>

/* A cache, as long as it was pinned; it may be gone when its slabs are counted. */
struct stats_slabs {
	const struct slab_cache *cache; /* compared, not read */
	struct slab_order oo, min;
	uint64_t resting; /* objects in quarantine, which are not in use */
	struct kmem_cache_stats *out;
};

/* Add the slabs of these caches to what `out` has. Sorts the array. */
void stats_add_slabs(struct stats_slabs *of, size_t n);

#endif
