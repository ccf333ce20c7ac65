/* SPDX-License-Identifier: MIT */
/* Whether all objects of a cache have been freed. */
#ifndef SHEAF_TESTS_CACHE_H
#define SHEAF_TESTS_CACHE_H

#include <err.h>
#include <sheaf/rcu.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <stdbool.h>

/* True if no object of the cache is in use, once retired objects have been freed. */
static inline bool all_freed(struct kmem_cache *s)
{
	struct kmem_cache_stats stats;

	kvfree_rcu_barrier_on_cache(s);
	if (kmem_cache_stats(s, &stats))
		errx(1, "no statistics");
	return stats.objects_in_use == 0;
}

#endif
