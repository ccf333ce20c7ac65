/* SPDX-License-Identifier: MIT */
/* Memory pools over a cache and over kmalloc(). Callers: programs. */
#include "kmalloc/mempool.h"

#include "cache/block.h"
#include "cache/hardened.h"

static struct mempool_over over_cache(struct kmem_cache *cache)
{
	return (struct mempool_over){mempool_alloc_slab, mempool_free_slab, cache};
}

static struct mempool_over over_size(size_t size)
{
	return (struct mempool_over){mempool_kmalloc, mempool_kfree, (void *)size};
}

SHEAF_PUBLIC mempool_t *mempool_create_slab_pool(int min_nr, struct kmem_cache *cache)
{
	return mempool_create_for(min_nr, over_cache(cache), GFP_KERNEL,
				  "mempool_create_slab_pool");
}

SHEAF_PUBLIC int mempool_init_slab_pool(mempool_t *pool, int min_nr, struct kmem_cache *cache)
{
	return mempool_init_for(pool, min_nr, over_cache(cache), GFP_KERNEL,
				"mempool_init_slab_pool");
}

SHEAF_PUBLIC void *mempool_alloc_slab(gfp_t gfp, void *pool_data)
{
	if (!pool_data)
		return (void *)cache_report_null("mempool_alloc_slab");
	return kmem_cache_alloc(pool_data, gfp);
}

SHEAF_PUBLIC void mempool_free_slab(void *element, void *pool_data)
{
	kmem_cache_free(pool_data, element);
}

SHEAF_PUBLIC mempool_t *mempool_create_kmalloc_pool(int min_nr, size_t size)
{
	return mempool_create_for(min_nr, over_size(size), GFP_KERNEL,
				  "mempool_create_kmalloc_pool");
}

SHEAF_PUBLIC int mempool_init_kmalloc_pool(mempool_t *pool, int min_nr, size_t size)
{
	return mempool_init_for(pool, min_nr, over_size(size), GFP_KERNEL,
				"mempool_init_kmalloc_pool");
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

/* --- elements of hardened caches -------------------------------------------------------------- */

/* The hardened cache that must check this element; NULL: there is none. */
static struct kmem_cache *hardened_cache(const struct sheaf_mempool *pool, const void *element)
{
	struct kmem_cache *s = NULL;

	if (pool->over.free == mempool_free_slab)
		s = pool->over.data;
	else if (pool->over.free == mempool_kfree)
		s = block_of(element).cache;
	return s && cache_is_hardened(s) ? s : NULL;
}

bool mempool_see_freed(const struct sheaf_mempool *pool, void *element)
{
	struct kmem_cache *s = hardened_cache(pool, element);
	bool right = !s || hardened_free(s, element, "mempool_free");
	struct block block;

	/* kmalloc() is hardened as a whole: it must never return memory that is not its own. */
	if (!s && pool->over.free == mempool_kfree && os_options.check_free &&
	    !ZERO_OR_NULL_PTR(element))
		right = cache_find_used(element, false, &block, "mempool_free");
	cache_leave();
	return right;
}

void *mempool_see_taken(const struct sheaf_mempool *pool, void *element)
{
	struct kmem_cache *s = hardened_cache(pool, element);

	if (s)
		element = hardened_take(s, element, GFP_NOWAIT);
	cache_leave();
	return element;
}
