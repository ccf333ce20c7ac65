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

/* To be initialised by mempool_init() in the program's own memory, or made by mempool_create(). */
typedef struct mempool {
	struct sheaf_mempool *reserve; /* private; NULL: not initialised */
} mempool_t;

/* What a pool is over. Called with no lock held; alloc may return NULL, and never waits for elements
 * of the pool. */
typedef void *(*mempool_alloc_fn)(gfp_t gfp, void *pool_data);
typedef void (*mempool_free_fn)(void *element, void *pool_data);

/*
 * A pool with a reserve of min_nr elements (0 ... 262144), allocated now. NULL if memory is out, or
 * after a report if min_nr is wrong or a function is NULL. Takes a lock; O(min_nr). With a reserve of none, who
 * waits gets what is freed or what the allocator has again, but nobody is sure to go on.
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

/* mempool_create() that allocates the reserve with these flags. The node is not looked at. */
SHEAF_CHECK_RESULT mempool_t *mempool_create_node(int min_nr, mempool_alloc_fn alloc_fn,
						  mempool_free_fn free_fn, void *pool_data,
						  gfp_t gfp, int node)
	SHEAF_SYMBOL(mempool_create_node);

/*
 * The same in the program's own memory, such as a member of a structure: mempool_exit() gives up what it
 * holds. Return 0, -ENOMEM, or -EINVAL after a report.
 */
SHEAF_CHECK_RESULT int mempool_init(mempool_t *pool, int min_nr, mempool_alloc_fn alloc_fn,
				    mempool_free_fn free_fn, void *pool_data)
	SHEAF_SYMBOL(mempool_init);
SHEAF_CHECK_RESULT int mempool_init_node(mempool_t *pool, int min_nr, mempool_alloc_fn alloc_fn,
					 mempool_free_fn free_fn, void *pool_data, gfp_t gfp,
					 int node) SHEAF_SYMBOL(mempool_init_node);
SHEAF_CHECK_RESULT int mempool_init_slab_pool(mempool_t *pool, int min_nr, struct kmem_cache *cache)
	SHEAF_SYMBOL(mempool_init_slab_pool);
SHEAF_CHECK_RESULT int mempool_init_kmalloc_pool(mempool_t *pool, int min_nr, size_t size)
	SHEAF_SYMBOL(mempool_init_kmalloc_pool);

/* Free the reserve of a pool that was initialised; of one that was not, or was before and failed, or whose
 * memory is all zero: nothing. Nobody else may be using it. It may be initialised again. */
void mempool_exit(mempool_t *pool) SHEAF_SYMBOL(mempool_exit);

/* Whether it was initialised, and not given up. Of memory that is all zero: no. O(1). */
static inline bool mempool_initialized(mempool_t *pool)
{
	return pool->reserve != NULL;
}

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
