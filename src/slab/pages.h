/* SPDX-License-Identifier: MIT */
/*
 * The beginning and the end of a slab: it is made of pages, and its pages return to the page layer.
 * Statistics, tools and marks learn of both here.
 *
 * Locks: none held. Callers: src/slab/ only.
 */
#ifndef SHEAF_SLAB_PAGES_H
#define SHEAF_SLAB_PAGES_H

#include "slab/slab.h"

/*
 * Slabs for one refill: their pages are taken together, so that many CPUs that need memory at the
 * same time seldom wait for each other. With half, they meet at the lock twice as often; double was
 * not measured.
 */
#define SLAB_RUNS 8

struct slab_runs {
	unsigned int wanted;  /* by this refill, still */
	unsigned int next, n; /* here, from the next one on: by address, if memory is fresh */
	struct slab *run[SLAB_RUNS];
};

/* A new, held slab on this node, whose objects are all free. NULL: no memory. */
struct slab *slab_make(struct slab_cache *cache, unsigned int node, struct slab_runs *runs);
/* Pages that were not needed. */
void slab_return_runs(const struct slab_cache *cache, struct slab_runs *runs);

/* Return the pages of a slab that is on no list, after a grace period if the cache needs that. */
void slab_discard(struct slab_cache *cache, struct slab *slab);
void slab_discard_now(struct slab_cache *cache, struct slab *slab);

#endif
