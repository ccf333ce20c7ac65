/* SPDX-License-Identifier: MIT */
/*
 * Memory pools: a reserve in addition to an allocator, and threads that wait for an element.
 *
 * The reserve is an array, used last in, first out. Most allocations and frees only see that it is
 * full, and do not take its lock.
 *
 * Invariants
 *  MEMPOOL-N1. nr <= room, min_nr <= room, and room >= 1. No element is added beyond
 *      max(min_nr, 1). All change under the lock.
 *  MEMPOOL-N2. A waiting thread found fewer elements than it needs, counted itself while it held
 *      the lock, and sleeps with the value of `turn` at that time. A thread that adds an element
 *      while any thread is counted changes `turn` and wakes one; all, if one needs several.
 *  MEMPOOL-N3. A thread that was woken tries the reserve before the allocator. Each added element
 *      wakes a thread, so the reserve never holds what a waiting thread needs while all sleep.
 *  MEMPOOL-N4. No thread sleeps forever: memory may become available without a free to this pool.
 *      So a waiting thread tries the allocator again after 1 ms, 2 ms, 4 ms ... LONGEST_MS.
 *  MEMPOOL-N5. A reserve with min_nr 0 has room for one element while it is empty and a thread
 *      waits: a waiting thread gets the element that is freed. MEMPOOL-N4 covers a thread that
 *      begins to wait just then.
 *  MEMPOOL-N6. A thread that holds the lock calls no function of the pool's user and takes no other
 *      lock.
 *
 *  MEMPOOL-N7. In the reserve, objects of hardened caches are free. They are checked, and their
 *      marks change, before they enter it and after they have left it.
 *  MEMPOOL-N8. claimed <= nr. Claimed elements are in the reserve; only threads that have claimed
 *      some take them. A thread that wants several claims all or none: two that each hold a part
 *      and wait for the rest would wait forever.
 *
 * A pool and its array are the library's own memory (page/pool.h): they hold pointers to functions
 * and to free objects, which an overflow of a block must not reach.
 *
 *     mempool.c        elements: allocated, freed
 *     mempool_make.c   pools: created, resized, destroyed; all pools, for fork()
 *     mempool_over.c   pools over a cache or kmalloc()
 *
 * Locks: OS_RANK_MEMPOOL, one for each pool and one for the list of pools.
 * Callers: src/kmalloc/mempool*.c.
 */
#ifndef SHEAF_KMALLOC_MEMPOOL_H
#define SHEAF_KMALLOC_MEMPOOL_H

#include <sheaf/mempool.h>

#include "os/compiler.h"
#include "os/lock.h"
#include "os/machine.h"

/* The allocator of a pool. */
struct mempool_over {
	mempool_alloc_fn alloc;
	mempool_free_fn free;
	void *data;
};

struct sheaf_mempool {
	mempool_t handle; /* for a pool whose handle is not in the caller's memory */
	struct os_lock lock;
	uint32_t nr, min_nr, room;
	uint32_t claimed;
	uint32_t turn, waiters, bulk_waiters; /* waiters: all of them */
	uint32_t warned_zero;
	void **elements;
	struct mempool_over over;
	struct sheaf_mempool *next;
};

/* --- mempool.c -------------------------------------------------------------------------------- */

/* With the lock held: take an element from the reserve, or return NULL. */
void *mempool_take(struct sheaf_mempool *pool);
/* Put an element into the reserve, or free it if the reserve is full by now. False after a report:
 * the element was ignored. */
bool mempool_give(struct sheaf_mempool *pool, void *element);

/* Functions of the program, which may change errno. */
void *mempool_call_alloc_fn(const struct sheaf_mempool *pool, gfp_t gfp);
void mempool_call_free_fn(const struct sheaf_mempool *pool, void *element);

/* Those of pools over a cache, which is not NULL, are called without an indirect branch, and keep
 * errno themselves. */
static inline void *mempool_call_alloc(const struct sheaf_mempool *pool, gfp_t gfp)
{
	if (pool->over.alloc == mempool_alloc_slab)
		return kmem_cache_alloc(pool->over.data, gfp);
	return mempool_call_alloc_fn(pool, gfp);
}

static inline void mempool_call_free(const struct sheaf_mempool *pool, void *element)
{
	if (pool->over.free == mempool_free_slab)
		kmem_cache_free(pool->over.data, element);
	else
		mempool_call_free_fn(pool, element);
}

/* --- mempool_make.c --------------------------------------------------------------------------- */

/* The calls of these names, for another one, which is reported. */
mempool_t *mempool_create_for(int min_nr, struct mempool_over over, gfp_t gfp, const char *call);
int mempool_init_for(mempool_t *handle, int min_nr, struct mempool_over over, gfp_t gfp,
		     const char *call);

/* NULL or an uninitialised pool, which is reported. Returns NULL. */
void *mempool_report_wrong(mempool_t *handle, const char *call) OS_COLD;

static inline struct sheaf_mempool *mempool_of(mempool_t *handle)
{
	return os_likely(handle) ? handle->reserve : NULL;
}

/* --- mempool_over.c: elements of hardened caches ---------------------------------------------- */

/* The program frees an element into the reserve. False after a report: ignore it. */
bool mempool_see_freed(const struct sheaf_mempool *pool, void *element);
/* The program, or the allocator, gets an element of the reserve. Returns it, or another one in its
 * place, or NULL. */
void *mempool_see_taken(const struct sheaf_mempool *pool, void *element);

/* After mempool_take(), without the lock: as mempool_see_taken(). NULL is allowed. */
static inline void *mempool_taken(const struct sheaf_mempool *pool, void *element)
{
	return os_watched() && element ? mempool_see_taken(pool, element) : element;
}

#endif
