/* SPDX-License-Identifier: MIT */
/*
 * Memory pools: an allocator with a reserve behind it, for work that must go on when memory is out.
 *
 *     mempool_t *requests = mempool_create_slab_pool(4, request_cache);
 *     struct request *r = mempool_alloc(requests, GFP_KERNEL);   never NULL: waits for one instead
 *     mempool_free(r, requests);
 *
 * Whoever holds elements must be able to finish and free them without allocating more from the same
 * pool: then somebody always goes on.
 */
#ifndef SHEAF_MEMPOOL_H
#define SHEAF_MEMPOOL_H

#include <sheaf/slab.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mempool mempool_t;

/* What a pool is over. Called with no lock held; alloc may return NULL, and never waits for elements
 * of the pool. */
typedef void *(*mempool_alloc_fn)(gfp_t gfp, void *pool_data);
typedef void (*mempool_free_fn)(void *element, void *pool_data);

/*
 * A pool with a reserve of min_nr elements (1 ... 262144), allocated now. NULL if memory is out, or
 * after a report if min_nr is wrong or a function is NULL. Takes a lock; O(min_nr).
 */
SHEAF_CHECK_RESULT mempool_t *mempool_create(int min_nr, mempool_alloc_fn alloc_fn,
					     mempool_free_fn free_fn, void *pool_data)
	SHEAF_SYMBOL(mempool_create);

/* Over a cache: mempool_alloc_slab() and mempool_free_slab() with the cache as pool_data. */
SHEAF_CHECK_RESULT mempool_t *mempool_create_slab_pool(int min_nr, struct kmem_cache *cache)
	SHEAF_SYMBOL(mempool_create_slab_pool);

/* Over blocks of size bytes: mempool_kmalloc() and mempool_kfree() with the size as pool_data. */
SHEAF_CHECK_RESULT mempool_t *mempool_create_kmalloc_pool(int min_nr, size_t size)
	SHEAF_SYMBOL(mempool_create_kmalloc_pool);

/*
 * An element: from the allocator, without reclaiming; else from the reserve; else from the allocator
 * by all means that gfp has; else, if gfp has __GFP_DIRECT_RECLAIM, it waits until an element is freed
 * to the pool, on whatever CPU, or the allocator has one again, and never returns NULL. It asks again after
 * 1 ms, 2 ms, 4 ms and so on, once a second at last. Its content is undefined: __GFP_ZERO is reported
 * and ignored. O(1) beside what the allocator takes. Kernel: asks again every 5 s.
 */
SHEAF_CHECK_RESULT void *mempool_alloc(mempool_t *pool, gfp_t gfp) SHEAF_SYMBOL(mempool_alloc);

/* An element of the reserve, or NULL if it is empty; the allocator is not asked, nobody waits. */
SHEAF_CHECK_RESULT void *mempool_alloc_preallocated(mempool_t *pool)
	SHEAF_SYMBOL(mempool_alloc_preallocated);

/* Free an element: into the reserve if that is not full, and then whoever waits for one gets it; else
 * to the allocator. NULL is allowed. */
void mempool_free(void *element, mempool_t *pool) SHEAF_SYMBOL(mempool_free);

/*
 * Change the reserve to new_min_nr elements; those too many are freed, those missing allocated. May
 * run beside allocations and frees, not beside another resize. Returns 0; -ENOMEM if not all could be
 * allocated (the reserve fills up by frees), or the reserve is unchanged; -EINVAL for a wrong number.
 */
int mempool_resize(mempool_t *pool, int new_min_nr) SHEAF_SYMBOL(mempool_resize);

/* Free the reserve and the pool. NULL is allowed. Nobody else may be using it, and elements that are
 * still out cannot be freed to it any more. */
void mempool_destroy(mempool_t *pool) SHEAF_SYMBOL(mempool_destroy);

/* For mempool_create(): pool_data is a struct kmem_cache. */
SHEAF_CHECK_RESULT void *mempool_alloc_slab(gfp_t gfp, void *pool_data)
	SHEAF_SYMBOL(mempool_alloc_slab);
void mempool_free_slab(void *element, void *pool_data) SHEAF_SYMBOL(mempool_free_slab);

/* For mempool_create(): pool_data is a number of bytes. */
SHEAF_CHECK_RESULT void *mempool_kmalloc(gfp_t gfp, void *pool_data) SHEAF_SYMBOL(mempool_kmalloc);
void mempool_kfree(void *element, void *pool_data) SHEAF_SYMBOL(mempool_kfree);

#ifdef __cplusplus
}
#endif

#endif
