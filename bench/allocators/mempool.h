/* SPDX-License-Identifier: MIT */
/*
 * A memory pool of libsheaf over a cache made as in sheaf.h: every object passes through the pool.
 */
#include <sheaf/mempool.h>

#define bench_open  bench_open_cache
#define bench_alloc bench_alloc_object
#define bench_free  bench_free_object
#include "sheaf.h"
#undef bench_open
#undef bench_alloc
#undef bench_free

#define BENCH_RESERVE 64 /* objects that the pool reserves for times without memory */

static inline void *bench_open(const struct bench_setup *setup)
{
	struct kmem_cache *cache = bench_open_cache(setup);

	return cache ? mempool_create_slab_pool(BENCH_RESERVE, cache) : NULL;
}

static inline void *bench_alloc(void *context)
{
	return mempool_alloc(context, GFP_KERNEL);
}

static inline void bench_free(void *context, void *object)
{
	mempool_free(object, context);
}
