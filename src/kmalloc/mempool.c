/* SPDX-License-Identifier: MIT */
/*
 * Memory pools: a reserve beside an allocator, and those who wait for an element.
 *
 * The reserve is an array used last in, first out. Most allocations and frees see only that it is
 * full, and pass it by without its lock.
 *
 * Invariants
 *  N1. nr <= min_nr <= room; min_nr >= 1. All change under the lock.
 *  N2. Who waits found nr == 0 and counted itself under one hold of the lock, and sleeps with the
 *      `turn` it saw then. Who adds an element while somebody is counted changes `turn` and wakes one.
 *  N3. Who was woken looks at the reserve before it asks the allocator. Each element that is added
 *      wakes one, so none lies in the reserve while everybody sleeps.
 *  N4. Nobody sleeps for ever: memory may be had again without anybody freeing to this pool. So who
 *      waits asks the allocator again after 1 ms, 2 ms, 4 ms ... LONGEST_MS.
 *  N5. Nothing is called, and no other lock taken, with the lock held.
 *
 * Locks: OS_RANK_MEMPOOL, one for each pool; OS_RANK_CACHES for the list of pools.
 * Callers: users.
 */
#include <sheaf/mempool.h>

#include <errno.h>
#include <string.h>

#include "cache/cache.h"
#include "os/atomic.h"
#include "os/machine.h"
#include "os/report.h"
#include "os/wait.h"
#include "page/pool.h"

#define MIN_NR_MAX 262144
#define LONGEST_MS 1024 /* between attempts of one who waits */

struct mempool {
	struct os_lock lock;
	uint32_t nr, min_nr, room;
	uint32_t turn, waiters;
	uint32_t warned_zero;
	void **elements;
	mempool_alloc_fn alloc;
	mempool_free_fn free;
	void *data;
	struct mempool *next;
};

static struct mempool *first_pool;

static bool is_wrong(int min_nr, const char *call)
{
	if (min_nr >= 1 && min_nr <= MIN_NR_MAX)
		return false;
	os_report(
		"%s(%d elements): a reserve has 1 to %d; nothing done. One is enough for somebody "
		"to go on always",
		call, min_nr, MIN_NR_MAX);
	return true;
}

/* With the lock held: an element of the reserve, or NULL. */
static void *take_element(struct mempool *pool)
{
	if (!pool->nr)
		return NULL;
	os_store_relaxed(&pool->nr, pool->nr - 1);
	tsan_taken(pool->elements[pool->nr]);
	return pool->elements[pool->nr];
}

/* An element into the reserve. False if it is full. */
static bool put(struct mempool *pool, void *element)
{
	bool done, wake;

	if (os_load_relaxed(&pool->nr) >= os_load_relaxed(&pool->min_nr))
		return false;
	tsan_given(element);
	os_lock(&pool->lock);
	done = pool->nr < pool->min_nr;
	if (done) {
		pool->elements[pool->nr] = element;
		os_store_relaxed(&pool->nr, pool->nr + 1);
	}
	wake = done && pool->waiters;
	if (wake)
		os_store_relaxed(&pool->turn, pool->turn + 1);
	os_unlock(&pool->lock);
	if (wake)
		os_wake(&pool->turn);
	return done;
}

SHEAF_PUBLIC void *mempool_alloc_preallocated(mempool_t *pool)
{
	void *element;

	if (!os_load_relaxed(&pool->nr))
		return NULL;
	os_lock(&pool->lock);
	element = take_element(pool);
	os_unlock(&pool->lock);
	return element;
}

/* An element of the reserve, if need be after so many ms at most; or NULL. */
static void *wait_for_element(struct mempool *pool, uint32_t ms)
{
	void *element;
	uint32_t turn;

	os_lock(&pool->lock);
	element = take_element(pool);
	if (!element) {
		pool->waiters++;
		turn = pool->turn;
		os_unlock(&pool->lock);
		os_wait(&pool->turn, turn, ms);
		os_lock(&pool->lock);
		pool->waiters--;
		element = take_element(pool);
	}
	os_unlock(&pool->lock);
	return element;
}

SHEAF_PUBLIC void *mempool_alloc(mempool_t *pool, gfp_t gfp)
{
	bool may_wait = gfp & __GFP_DIRECT_RECLAIM;
	void *element;

	if (gfp & __GFP_ZERO)
		os_report_once(&pool->warned_zero,
			       "mempool_alloc(%p): __GFP_ZERO cannot be kept for elements of the "
			       "reserve; ignored. Clear what must be clear yourself",
			       (void *)pool);
	/* Waiting for the pool's own elements is what never fails. */
	gfp &= ~(__GFP_ZERO | __GFP_NOFAIL);
	element = pool->alloc((gfp & ~__GFP_DIRECT_RECLAIM) | __GFP_NORETRY | __GFP_NOWARN,
			      pool->data);
	if (!element)
		element = mempool_alloc_preallocated(pool);
	for (uint32_t ms = 1; !element && may_wait; ms = ms < LONGEST_MS ? 2 * ms : ms) {
		element = pool->alloc(gfp, pool->data);
		if (!element)
			element = wait_for_element(pool, ms);
	}
	return element;
}

SHEAF_PUBLIC void mempool_free(void *element, mempool_t *pool)
{
	if (element && !put(pool, element))
		pool->free(element, pool->data);
}

/* Fill the reserve from the allocator. False: no memory. */
static bool fill_pool(struct mempool *pool)
{
	while (os_load_relaxed(&pool->nr) < os_load_relaxed(&pool->min_nr)) {
		void *element = pool->alloc(GFP_KERNEL, pool->data);

		if (!element)
			return false;
		mempool_free(element, pool);
	}
	return true;
}

/* Down to n elements in the reserve, and n at most from now on. */
static void trim(struct mempool *pool, uint32_t n)
{
	void *element;

	do {
		os_lock(&pool->lock);
		os_store_relaxed(&pool->min_nr, n);
		element = pool->nr > n ? take_element(pool) : NULL;
		os_unlock(&pool->lock);
		if (element)
			pool->free(element, pool->data);
	} while (element);
}

static bool make_room_for(struct mempool *pool, uint32_t n)
{
	void **larger = pool_alloc(n * sizeof(*larger)), **old;
	uint32_t room = pool->room;

	if (!larger)
		return false;
	os_lock(&pool->lock);
	old = pool->elements;
	if (pool->nr)
		memcpy(larger, old, pool->nr * sizeof(*larger));
	pool->elements = larger;
	pool->room = n;
	os_store_relaxed(&pool->min_nr, n);
	os_unlock(&pool->lock);
	pool_free(old, room * sizeof(*old));
	return true;
}

SHEAF_PUBLIC int mempool_resize(mempool_t *pool, int new_min_nr)
{
	if (is_wrong(new_min_nr, "mempool_resize"))
		return -EINVAL;
	if ((uint32_t)new_min_nr <= pool->min_nr) {
		trim(pool, (uint32_t)new_min_nr);
		return 0;
	}
	if ((uint32_t)new_min_nr <= pool->room) {
		os_lock(&pool->lock);
		os_store_relaxed(&pool->min_nr, (uint32_t)new_min_nr);
		os_unlock(&pool->lock);
	} else if (!make_room_for(pool, (uint32_t)new_min_nr)) {
		return -ENOMEM;
	}
	return fill_pool(pool) ? 0 : -ENOMEM;
}

/* Many locks of one rank, so by try-lock; who holds one waits for nobody. */
static void lock_all(void)
{
	for (struct mempool *pool = first_pool; pool; pool = pool->next)
		while (!os_trylock(&pool->lock))
			os_sleep_briefly();
}

static void unlock_all(void)
{
	for (struct mempool *pool = first_pool; pool; pool = pool->next)
		os_unlock(&pool->lock);
}

/* In a forked child the threads that waited do not exist. */
static void forget_waiters(void)
{
	for (struct mempool *pool = first_pool; pool; pool = pool->next)
		pool->waiters = 0;
}

static const struct fork_part around_fork = {lock_all, unlock_all, forget_waiters};

static void enlist(struct mempool *pool)
{
	os_lock(&caches.lock);
	pool->next = first_pool;
	first_pool = pool;
	caches.pools = &around_fork;
	os_unlock(&caches.lock);
}

static void unlist_pool(struct mempool *pool)
{
	struct mempool **at = &first_pool;

	os_lock(&caches.lock);
	while (*at != pool)
		at = &(*at)->next;
	*at = pool->next;
	os_unlock(&caches.lock);
}

/* What a caller passes on without a look: the result of a kmem_cache_create() that failed, too. */
static bool is_missing(const void *what, const char *call, const char *name)
{
	if (!what)
		os_report("%s: %s is NULL; no pool made. A pool is over an allocator, which must "
			  "be there",
			  call, name);
	return !what;
}

SHEAF_PUBLIC mempool_t *mempool_create(int min_nr, mempool_alloc_fn alloc_fn,
				       mempool_free_fn free_fn, void *pool_data)
{
	struct mempool *pool;

	if (is_missing((const void *)alloc_fn, "mempool_create", "alloc_fn") ||
	    is_missing((const void *)free_fn, "mempool_create", "free_fn") ||
	    is_wrong(min_nr, "mempool_create") || !caches_ready())
		return NULL;
	pool = pool_alloc(sizeof(*pool));
	if (!pool)
		return NULL;
	os_lock_init(&pool->lock, OS_RANK_MEMPOOL);
	pool->alloc = alloc_fn;
	pool->free = free_fn;
	pool->data = pool_data;
	enlist(pool);
	if (!make_room_for(pool, (uint32_t)min_nr) || !fill_pool(pool)) {
		mempool_destroy(pool);
		return NULL;
	}
	return pool;
}

SHEAF_PUBLIC mempool_t *mempool_create_slab_pool(int min_nr, struct kmem_cache *cache)
{
	if (is_missing(cache, "mempool_create_slab_pool", "the cache"))
		return NULL;
	return mempool_create(min_nr, mempool_alloc_slab, mempool_free_slab, cache);
}

SHEAF_PUBLIC void mempool_destroy(mempool_t *pool)
{
	if (!pool)
		return;
	if (pool->waiters)
		os_report("mempool_destroy(%p): %u threads wait for an element of it; the pool is "
			  "leaked. Destroy it after its last use",
			  (void *)pool, pool->waiters);
	if (pool->waiters)
		return;
	trim(pool, 0);
	unlist_pool(pool);
	pool_free(pool->elements, pool->room * sizeof(*pool->elements));
	pool_free(pool, sizeof(*pool));
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

SHEAF_PUBLIC void *mempool_kmalloc(gfp_t gfp, void *pool_data)
{
	return kmalloc((size_t)pool_data, gfp);
}

SHEAF_PUBLIC void mempool_kfree(void *element, void *pool_data)
{
	(void)pool_data;
	kfree(element);
}
