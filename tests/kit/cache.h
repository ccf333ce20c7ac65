/* SPDX-License-Identifier: MIT */
/*
 * A cache for a test, its statistics and the library's.
 *
 * look(s).X - before.X is the change of a counter.
 */
#ifndef SHEAF_TESTS_CACHE_H
#define SHEAF_TESTS_CACHE_H

#include <err.h>
#include <sheaf/rcu.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <stdbool.h>

#include "kit/options.h"

/* A cache that is not merged with others. */
static inline struct kmem_cache *make(const char *name, size_t size, slab_flags_t flags)
{
	struct kmem_cache *s = kmem_cache_create(name, size, NULL, SLAB_NO_MERGE | flags);

	if (!s)
		errx(1, "no cache %s", name);
	return s;
}

/* Among the flags of a cache whose objects must be in slabs, also where each object is a sample. */
static inline slab_flags_t no_samples(void)
{
	return has_debug_letter('S') ? SLAB_NO_USER_FLAGS : 0;
}

static inline struct kmem_cache_stats look(struct kmem_cache *s)
{
	struct kmem_cache_stats stats;

	if (kmem_cache_stats(s, &stats))
		errx(1, "no statistics");
	return stats;
}

/* The address of an object's slab, which is aligned to its size: not of a guarded object. */
static inline uintptr_t slab_of(struct kmem_cache *s, const void *object)
{
	return (uintptr_t)object & -((uintptr_t)4096 << look(s).order);
}

/* The library in this process; zero before its first use. */
static inline struct sheaf_stats library(void)
{
	struct sheaf_stats stats;

	sheaf_stats(&stats);
	return stats;
}

/* True if no object of the cache is in use, once retired objects have been freed. */
static inline bool all_freed(struct kmem_cache *s)
{
	kvfree_rcu_barrier_on_cache(s);
	return look(s).objects_in_use == 0;
}

#endif
