/* SPDX-License-Identifier: MIT */
/*
 * The slab layer of libsheaf, called without the cache and its sheaves: shows what a cache without
 * sheaves would cost if there were no code for sheaves.
 */
#include "cache/cache.h"
#include "os/machine.h"

#define BENCH_CALL NULL

static inline void *bench_open(const struct bench_setup *setup)
{
	struct kmem_cache *cache = kmem_cache_create("bench", (unsigned int)setup->size, NULL,
						     SLAB_NO_MERGE | SLAB_NO_SHEAVES);

	return cache ? &cache->sheaf.slab : NULL;
}

static inline void bench_thread_begin(unsigned int index)
{
	(void)index;
}

static inline bool bench_alloc_bulk(void *context, void **objects, unsigned int n)
{
	return slab_take(context, os_node(), SLAB_PREFER_NODE, objects, n) == n;
}

static inline void bench_free_bulk(void *context, void **objects, unsigned int n)
{
	slab_give(context, objects, n, "bench");
}

static inline void *bench_alloc(void *context)
{
	void *object;

	return bench_alloc_bulk(context, &object, 1) ? object : NULL;
}

static inline void bench_free(void *context, void *object)
{
	bench_free_bulk(context, &object, 1);
}

static inline void bench_trim(void *context)
{
	slab_shrink(context);
}

static inline bool bench_make_countable(void)
{
	return true; /* there are no sections */
}
