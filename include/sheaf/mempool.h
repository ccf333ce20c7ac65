/* SPDX-License-Identifier: MIT */
/*
 * Memory pools: an allocator with a reserve behind it, for work that must continue when there is no
 * memory.
 *
 *     mempool_t *requests = mempool_create_slab_pool(4, request_cache);
 *     struct request *r = mempool_alloc(requests, GFP_KERNEL);   never NULL: waits for one instead
 *     mempool_free(r, requests);
 *
 * A thread that holds elements must be able to free them without allocating more from the same
 * pool. Then at least one thread always makes progress.
 *
 * The rules of <sheaf/slab.h> for threads, signals, fork and errno apply here, too. Calls that
 * create, resize or destroy a pool may sleep. Calls that get NULL or a pool that is not initialised
 * report it and do nothing: they return NULL or -EINVAL. Kernel: <linux/mempool.h>, the same names.
 */
#ifndef SHEAF_MEMPOOL_H
#define SHEAF_MEMPOOL_H

#include <sheaf/slab.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A pool. mempool_create() makes one; mempool_init() initialises one in the program's memory. */
typedef struct mempool {
	struct sheaf_mempool *reserve; /* private; NULL: not initialised */
} mempool_t;

/*
 * The allocator below a pool. Called with no lock held. alloc may return NULL, and must not wait
 * for elements of the pool. Both must return: if one is left by longjmp(), an exception or the
 * cancellation of the thread, the element is lost, and so may be those that the call had in hand.
 */
typedef void *(*mempool_alloc_fn)(gfp_t gfp, void *pool_data);
typedef void (*mempool_free_fn)(void *element, void *pool_data);

/*
 * Create a pool with a reserve of min_nr elements (0 ... 262144), which are allocated immediately.
 * pool_data is passed to both functions. Returns NULL if there is no memory, or, after a report, if
 * min_nr is wrong, a function or the cache of its pool is NULL, or free_fn does not take what
 * alloc_fn returns (found in hardened programs). Takes a lock; O(min_nr). If the reserve is empty
 * by design (min_nr 0), a waiting thread continues when an element is freed or the allocator
 * succeeds again, but progress is not guaranteed.
 */
SHEAF_CHECK_RESULT mempool_t *mempool_create(int min_nr, mempool_alloc_fn alloc_fn,
					     mempool_free_fn free_fn, void *pool_data)
	SHEAF_SYMBOL(mempool_create);

/* mempool_create() of a pool over a cache, by mempool_alloc_slab() and mempool_free_slab(). */
SHEAF_CHECK_RESULT mempool_t *mempool_create_slab_pool(int min_nr, struct kmem_cache *cache)
	SHEAF_SYMBOL(mempool_create_slab_pool);

/* mempool_create() of a pool of blocks of size bytes, by mempool_kmalloc() and mempool_kfree(). */
SHEAF_CHECK_RESULT mempool_t *mempool_create_kmalloc_pool(int min_nr, size_t size)
	SHEAF_SYMBOL(mempool_create_kmalloc_pool);

/* mempool_create(), but allocate the reserve with these flags. The node is ignored. */
SHEAF_CHECK_RESULT mempool_t *mempool_create_node(int min_nr, mempool_alloc_fn alloc_fn,
						  mempool_free_fn free_fn, void *pool_data,
						  gfp_t gfp, int node)
	SHEAF_SYMBOL(mempool_create_node);

/*
 * Like mempool_create(), in the program's own memory, such as a member of a structure;
 * mempool_exit() frees the reserve. Return 0, -ENOMEM, or -EINVAL after a report.
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

/* Free the reserve of a pool. Does nothing if the initialisation of the pool failed, or if its
 * memory is all zero. No other thread may be using the pool. It may be initialised again. O(pools +
 * its elements). */
void mempool_exit(mempool_t *pool) SHEAF_SYMBOL(mempool_exit);

/* Return whether the pool is initialised. False for NULL and for memory that is all zero. O(1). */
static __always_inline bool mempool_initialized(mempool_t *pool)
{
	return pool && pool->reserve;
}

/*
 * Return an element. The call tries, in this order: the allocator without reclaiming; the reserve;
 * the allocator with everything that gfp allows. If all fail and gfp has __GFP_DIRECT_RECLAIM, it
 * waits until any thread frees an element to the pool, or until the allocator succeeds again, and
 * never returns NULL. It retries the allocator after 1 ms, 2 ms, 4 ms and so on, up to once per
 * second. The content is undefined: __GFP_ZERO is reported and ignored. O(1) plus the cost of the
 * allocator. Kernel: retries every 5 s.
 */
SHEAF_CHECK_RESULT void *mempool_alloc(mempool_t *pool, gfp_t gfp) SHEAF_SYMBOL(mempool_alloc);

/* Return an element of the reserve, or NULL if it is empty, without calling the allocator or
 * waiting for an element. Briefly takes a lock. O(1). */
SHEAF_CHECK_RESULT void *mempool_alloc_preallocated(mempool_t *pool)
	SHEAF_SYMBOL(mempool_alloc_preallocated);

/* Return an element of the allocator, with everything that gfp allows, or NULL; the reserve is left
 * to others. With __GFP_ZERO, as far as the allocator knows it, it is zero. */
SHEAF_CHECK_RESULT void *mempool_alloc_noreserve(mempool_t *pool, gfp_t gfp)
	SHEAF_SYMBOL(mempool_alloc_noreserve);

/*
 * Put an element into each slot of elements[0] ... elements[count-1] that is NULL, as
 * mempool_alloc() with GFP_KERNEL does: it waits if necessary. It takes from the reserve all that
 * the allocator lacks, or none, so that two such calls do not wait for each other. `allocated`, the
 * number of slots that are not NULL, is ignored: the slots say it. What they hold should not come
 * from the reserve: threads that hold parts of it and wait for the rest wait forever. Returns 0;
 * -EINVAL after a report, with nothing changed, if the pool is wrong or has a smaller reserve than
 * there are slots to fill. If the reserve is made smaller meanwhile, progress is not guaranteed.
 * O(count) plus the cost of the allocator. Kernel: returns 0 always.
 */
int mempool_alloc_bulk(mempool_t *pool, void **elements, unsigned int count, unsigned int allocated)
	SHEAF_SYMBOL(mempool_alloc_bulk);

/*
 * Move elements from the beginning of the array to the reserve until it is full, and set their
 * slots to NULL; NULL slots are skipped. Returns the number of slots done: the caller frees the
 * others, elements[RESULT] ... elements[count-1]. 0 after a report if the pool is wrong. O(count).
 */
SHEAF_CHECK_RESULT unsigned int mempool_free_bulk(mempool_t *pool, void **elements,
						  unsigned int count)
	SHEAF_SYMBOL(mempool_free_bulk);

/* Return whether the reserve is full; false after a report if the pool is wrong. Outdated as soon
 * as another thread allocates or frees. O(1), no lock. */
bool mempool_is_saturated(mempool_t *pool) SHEAF_SYMBOL(mempool_is_saturated);

/* Free an element: into the reserve if it is not full, where a waiting thread can take it;
 * otherwise to the allocator. NULL is allowed. O(1) plus the cost of the allocator. */
void mempool_free(void *element, mempool_t *pool) SHEAF_SYMBOL(mempool_free);

/*
 * Change the reserve to new_min_nr elements: free extra elements, or allocate missing ones. Other
 * threads may allocate, free and resize it at the same time: then the last resize counts. Returns
 * 0; -EINVAL after a report, for the reasons of mempool_create(), or if the pool was destroyed; or
 * -ENOMEM if there is not enough memory: the reserve is then unchanged, or later frees fill it.
 * O(pools + difference), and O(new_min_nr) if the reserve grows.
 */
int mempool_resize(mempool_t *pool, int new_min_nr) SHEAF_SYMBOL(mempool_resize);

/* Free the reserve and the pool. NULL is allowed; a pool that was destroyed before is reported. No
 * other thread may be using the pool, and elements still in use can no longer be freed to it.
 * O(pools + its elements). */
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
