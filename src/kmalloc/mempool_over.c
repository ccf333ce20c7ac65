/* SPDX-License-Identifier: MIT */
/* Memory pools over a cache and over kmalloc(). Callers: programs. */
#include <errno.h>
#include <sheaf/mempool.h>

#include "os/public.h"
#include "os/report.h"

/* Callers may pass on the NULL from a kmem_cache_create() that failed. */
static bool cache_is_missing(const struct kmem_cache *cache, const char *call)
{
	if (!cache)
		os_misuse(NULL, "%s: the cache is NULL; no pool created. A pool needs an allocator",
			  call);
	return !cache;
}

SHEAF_PUBLIC mempool_t *mempool_create_slab_pool(int min_nr, struct kmem_cache *cache)
{
	if (cache_is_missing(cache, "mempool_create_slab_pool"))
		return NULL;
	return mempool_create(min_nr, mempool_alloc_slab, mempool_free_slab, cache);
}

SHEAF_PUBLIC int mempool_init_slab_pool(mempool_t *pool, int min_nr, struct kmem_cache *cache)
{
	pool->reserve = NULL;
	if (cache_is_missing(cache, "mempool_init_slab_pool"))
		return -EINVAL;
	return mempool_init(pool, min_nr, mempool_alloc_slab, mempool_free_slab, cache);
}

SHEAF_PUBLIC void *mempool_alloc_slab(gfp_t gfp, void *pool_data)
{
	return kmem_cache_alloc(pool_data, gfp);
}

SHEAF_PUBLIC void mempool_free_slab(void *element, void *pool_data)
{
	kmem_cache_free(pool_data, element);
}

SHEAF_PUBLIC mempool_t *mempool_create_kmalloc_pool(int min_nr, size_t size)
{
	return mempool_create(min_nr, mempool_kmalloc, mempool_kfree, (void *)size);
}

SHEAF_PUBLIC int mempool_init_kmalloc_pool(mempool_t *pool, int min_nr, size_t size)
{
	return mempool_init(pool, min_nr, mempool_kmalloc, mempool_kfree, (void *)size);
}

SHEAF_PUBLIC void *mempool_kmalloc(gfp_t gfp, void *pool_data)
{
	return kmalloc((size_t)pool_data, gfp);
}

SHEAF_PUBLIC void mempool_kfree(void *element, void *pool_data)
{
	(void)pool_data;
	kfree(element);
}
