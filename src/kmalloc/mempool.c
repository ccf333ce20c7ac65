/* SPDX-License-Identifier: MIT */
/*
 * Memory pools: a reserve in addition to an allocator, and threads that wait for an element.
 *
 * The reserve is an array, used last in, first out. Most allocations and frees only see that it is
 * full, and do not take its lock.
 *
 * Invariants
 *  N1. nr <= max(min_nr, 1), min_nr <= room, and room >= 1. All change under the lock.
 *  N2. A waiting thread found nr == 0 and counted itself while it held the lock, and sleeps with
 *      the value of `turn` at that time. A thread that adds an element while any thread is counted
 *      changes `turn` and wakes one.
 *  N3. A thread that was woken looks at the reserve before it asks the allocator. Each added
 *      element wakes one thread, so the reserve never holds an element while all waiting threads
 *      sleep.
 *  N4. No thread sleeps forever: memory may become available without a free to this pool. So a
 *      waiting thread asks the allocator again after 1 ms, 2 ms, 4 ms ... LONGEST_MS.
 *  N5. A reserve with min_nr 0 has room for one element while it is empty and a thread waits: a
 *      waiting thread gets the element that is freed. N4 covers a thread that begins to wait just
 *      then.
 *  N6. A thread that holds the lock calls no function of the pool's user and takes no other lock.
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
#define LONGEST_MS 1024 /* longest time between two attempts of a waiting thread */

struct sheaf_mempool {
	mempool_t handle; /* of a pool that is not in the caller's memory */
	struct os_lock lock;
	uint32_t nr, min_nr, room;
	uint32_t turn, waiters;
	uint32_t warned_zero;
	void **elements;
	mempool_alloc_fn alloc;
	mempool_free_fn free;
	void *data;
	struct sheaf_mempool *next;
};

/* The allocator of a pool. */
struct mempool_over {
	mempool_alloc_fn alloc;
	mempool_free_fn free;
	void *data;
};

static struct sheaf_mempool *first_pool;

static bool is_wrong(int min_nr, const char *call)
{
	if (min_nr >= 0 && min_nr <= MIN_NR_MAX)
		return false;
	os_misuse(NULL,
		  "%s(%d elements): a reserve has 0 to %d; ignored. With one element, one thread "
		  "can always continue",
		  call, min_nr, MIN_NR_MAX);
	return true;
}

/* With the lock held: take an element from the reserve, or return NULL. */
static void *take_element(struct sheaf_mempool *pool)
{
	if (!pool->nr)
		return NULL;
	os_store_relaxed(&pool->nr, pool->nr - 1);
	tsan_taken(pool->elements[pool->nr]);
	return pool->elements[pool->nr];
}

/* With the lock held; without it, only a guess. */
static bool pool_has_room(const struct sheaf_mempool *pool)
{
	uint32_t nr = os_load_relaxed(&pool->nr);

	return nr < os_load_relaxed(&pool->min_nr) || (!nr && os_load_relaxed(&pool->waiters));
}

/* Put an element into the reserve. Returns false if it is full. */
static bool put_element(struct sheaf_mempool *pool, void *element)
{
	bool done, wake;

	if (!pool_has_room(pool))
		return false;
	tsan_given(element);
	os_lock(&pool->lock);
	done = pool_has_room(pool);
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

static void *take_preallocated(struct sheaf_mempool *pool)
{
	void *element;

	if (!os_load_relaxed(&pool->nr))
		return NULL;
	os_lock(&pool->lock);
	element = take_element(pool);
	os_unlock(&pool->lock);
	return element;
}

SHEAF_PUBLIC void *mempool_alloc_preallocated(mempool_t *pool)
{
	return take_preallocated(pool->reserve);
}

/* Take an element from the reserve; wait for one if necessary, for at most ms milliseconds; or
 * return NULL. */
static void *wait_for_element(struct sheaf_mempool *pool, uint32_t ms)
{
	void *element;
	uint32_t turn;

	os_lock(&pool->lock);
	element = take_element(pool);
	if (!element) {
		os_store_relaxed(&pool->waiters, pool->waiters + 1);
		turn = pool->turn;
		os_unlock(&pool->lock);
		os_wait(&pool->turn, turn, ms);
		os_lock(&pool->lock);
		os_store_relaxed(&pool->waiters, pool->waiters - 1);
		element = take_element(pool);
	}
	os_unlock(&pool->lock);
	return element;
}

SHEAF_PUBLIC void *mempool_alloc(mempool_t *handle, gfp_t gfp)
{
	struct sheaf_mempool *pool = handle->reserve;
	bool may_wait = gfp & __GFP_DIRECT_RECLAIM;
	void *element;

	if (gfp & __GFP_ZERO)
		os_report_once(&pool->warned_zero,
			       "mempool_alloc(%p): __GFP_ZERO does not apply to elements of the "
			       "reserve; ignored. Clear the memory after the call",
			       (void *)handle);
	/* The pool never fails because it waits for its own elements, so the allocator may fail. */
	gfp &= ~(__GFP_ZERO | __GFP_NOFAIL);
	element = pool->alloc((gfp & ~__GFP_DIRECT_RECLAIM) | __GFP_NORETRY | __GFP_NOWARN,
			      pool->data);
	if (!element)
		element = take_preallocated(pool);
	for (uint32_t ms = 1; !element && may_wait; ms = ms < LONGEST_MS ? 2 * ms : ms) {
		element = pool->alloc(gfp, pool->data);
		if (!element)
			element = wait_for_element(pool, ms);
	}
	return element;
}

static void give_element(struct sheaf_mempool *pool, void *element)
{
	if (!put_element(pool, element))
		pool->free(element, pool->data);
}

SHEAF_PUBLIC void mempool_free(void *element, mempool_t *pool)
{
	if (element)
		give_element(pool->reserve, element);
}

/* Fill the reserve from the allocator. Returns false if there is no memory. */
static bool fill_pool(struct sheaf_mempool *pool, gfp_t gfp)
{
	while (os_load_relaxed(&pool->nr) < os_load_relaxed(&pool->min_nr)) {
		void *element = pool->alloc(gfp, pool->data);

		if (!element)
			return false;
		give_element(pool, element);
	}
	return true;
}

/* Reduce the reserve to n elements, which is its size from now on. */
static void trim(struct sheaf_mempool *pool, uint32_t n)
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

static bool make_room_for(struct sheaf_mempool *pool, uint32_t n)
{
	void **larger = pool_alloc((n ? n : 1) * sizeof(*larger)), **old;
	uint32_t room = pool->room;

	if (!larger)
		return false;
	os_lock(&pool->lock);
	old = pool->elements;
	if (pool->nr)
		memcpy(larger, old, pool->nr * sizeof(*larger));
	pool->elements = larger;
	pool->room = n ? n : 1;
	os_store_relaxed(&pool->min_nr, n);
	os_unlock(&pool->lock);
	pool_free(old, room * sizeof(*old));
	return true;
}

SHEAF_PUBLIC int mempool_resize(mempool_t *handle, int new_min_nr)
{
	struct sheaf_mempool *pool = handle->reserve;

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
	return fill_pool(pool, GFP_KERNEL) ? 0 : -ENOMEM;
}

/* Many locks of one rank, so by try-lock; a holder of one waits for no thread. */
static void lock_all(void)
{
	for (struct sheaf_mempool *pool = first_pool; pool; pool = pool->next)
		while (!os_trylock(&pool->lock))
			os_sleep_briefly();
}

static void unlock_all(void)
{
	for (struct sheaf_mempool *pool = first_pool; pool; pool = pool->next)
		os_unlock(&pool->lock);
}

/* In a forked child, threads that waited no longer exist. */
static void forget_waiters(void)
{
	for (struct sheaf_mempool *pool = first_pool; pool; pool = pool->next)
		pool->waiters = 0;
}

static const struct fork_part around_fork = {lock_all, unlock_all, forget_waiters};

static void enlist(struct sheaf_mempool *pool)
{
	os_lock(&caches.lock);
	pool->next = first_pool;
	first_pool = pool;
	caches.pools = &around_fork;
	os_unlock(&caches.lock);
}

static void unlist_pool(struct sheaf_mempool *pool)
{
	struct sheaf_mempool **at = &first_pool;

	os_lock(&caches.lock);
	while (*at != pool)
		at = &(*at)->next;
	*at = pool->next;
	os_unlock(&caches.lock);
}

static bool is_missing(const void *function, const char *call, const char *name)
{
	if (!function)
		os_misuse(NULL, "%s: %s is NULL; no pool created. A pool needs an allocator", call,
			  name);
	return !function;
}

/* Returns false if threads wait for an element. */
static bool unmake_pool(struct sheaf_mempool *pool, mempool_t *handle, const char *call)
{
	if (pool->waiters) {
		os_misuse(NULL,
			  "%s(%p): %u threads wait for an element; the pool is leaked. Destroy it "
			  "after its last use",
			  call, (void *)handle, pool->waiters);
		return false;
	}
	trim(pool, 0);
	unlist_pool(pool);
	pool_free(pool->elements, pool->room * sizeof(*pool->elements));
	pool_free(pool, sizeof(*pool));
	return true;
}

/* Returns 0 and a pool, -EINVAL after a report, or -ENOMEM. */
static int make_pool(struct sheaf_mempool **made, int min_nr, const struct mempool_over *over,
		     gfp_t gfp, const char *call)
{
	struct sheaf_mempool *pool;

	if (is_missing((const void *)over->alloc, call, "alloc_fn") ||
	    is_missing((const void *)over->free, call, "free_fn") || is_wrong(min_nr, call))
		return -EINVAL;
	pool = caches_ready() ? pool_alloc(sizeof(*pool)) : NULL;
	if (!pool)
		return -ENOMEM;
	os_lock_init(&pool->lock, OS_RANK_MEMPOOL);
	pool->handle.reserve = pool;
	pool->alloc = over->alloc;
	pool->free = over->free;
	pool->data = over->data;
	enlist(pool);
	if (!make_room_for(pool, (uint32_t)min_nr) || !fill_pool(pool, gfp)) {
		unmake_pool(pool, &pool->handle, call);
		return -ENOMEM;
	}
	*made = pool;
	return 0;
}

SHEAF_PUBLIC mempool_t *mempool_create_node(int min_nr, mempool_alloc_fn alloc_fn,
					    mempool_free_fn free_fn, void *pool_data, gfp_t gfp,
					    int node)
{
	const struct mempool_over over = {alloc_fn, free_fn, pool_data};
	struct sheaf_mempool *pool;

	(void)node;
	return make_pool(&pool, min_nr, &over, gfp, "mempool_create") ? NULL : &pool->handle;
}

SHEAF_PUBLIC mempool_t *mempool_create(int min_nr, mempool_alloc_fn alloc_fn,
				       mempool_free_fn free_fn, void *pool_data)
{
	return mempool_create_node(min_nr, alloc_fn, free_fn, pool_data, GFP_KERNEL, NUMA_NO_NODE);
}

SHEAF_PUBLIC int mempool_init_node(mempool_t *handle, int min_nr, mempool_alloc_fn alloc_fn,
				   mempool_free_fn free_fn, void *pool_data, gfp_t gfp, int node)
{
	const struct mempool_over over = {alloc_fn, free_fn, pool_data};

	(void)node;
	handle->reserve = NULL;
	return make_pool(&handle->reserve, min_nr, &over, gfp, "mempool_init");
}

SHEAF_PUBLIC int mempool_init(mempool_t *handle, int min_nr, mempool_alloc_fn alloc_fn,
			      mempool_free_fn free_fn, void *pool_data)
{
	return mempool_init_node(handle, min_nr, alloc_fn, free_fn, pool_data, GFP_KERNEL,
				 NUMA_NO_NODE);
}

SHEAF_PUBLIC void mempool_exit(mempool_t *handle)
{
	struct sheaf_mempool *pool = handle->reserve;

	if (!pool)
		return;
	handle->reserve = NULL;
	if (!unmake_pool(pool, handle, "mempool_exit"))
		handle->reserve = pool;
}

SHEAF_PUBLIC void mempool_destroy(mempool_t *handle)
{
	if (handle)
		unmake_pool(handle->reserve, handle, "mempool_destroy");
}
