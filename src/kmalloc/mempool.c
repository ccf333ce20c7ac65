/* SPDX-License-Identifier: MIT */
/*
 * Elements of memory pools: allocating, freeing and waiting. See mempool.h. Callers: programs.
 */
#include "kmalloc/mempool.h"

#include "os/assert.h"
#include "os/atomic.h"
#include "os/report/report.h"
#include "os/tsan.h"

#define LONGEST_MS 1024 /* longest time between two attempts of a waiting thread */

void *mempool_take(struct sheaf_mempool *pool)
{
	os_assert(os_peek(&pool->lock.word) && os_peek(&pool->nr) <= pool->room); /* MEMPOOL-N1 */
	if (!pool->nr)
		return NULL;
	os_store_relaxed(&pool->nr, pool->nr - 1);
	tsan_acquire(pool->elements[pool->nr]);
	return pool->elements[pool->nr];
}

/* Exact with the lock held; without it, the answer may be outdated. */
static bool pool_has_room(const struct sheaf_mempool *pool)
{
	uint32_t nr = os_load_relaxed(&pool->nr);

	return nr < os_load_relaxed(&pool->min_nr) || (!nr && os_load_relaxed(&pool->waiters));
}

/* Put an element into the reserve. Returns NULL; if it is full, the element that is to be freed. */
static void *put_element(struct sheaf_mempool *pool, void *element)
{
	bool done, wake;

	tsan_release(element);
	os_lock(&pool->lock);
	done = pool_has_room(pool);
	if (done) {
		pool->elements[pool->nr] = element;
		os_store_relaxed(&pool->nr, pool->nr + 1);
		/* MEMPOOL-N1, MEMPOOL-N5 */
		os_assert(os_peek(&pool->nr) <= (pool->min_nr ? pool->min_nr : 1));
		os_assert(os_peek(&pool->nr) <= pool->room);
	}
	wake = done && pool->waiters;
	if (wake)
		os_store_relaxed(&pool->turn, pool->turn + 1);
	os_unlock(&pool->lock);
	if (wake)
		os_wake(&pool->turn);
	return done ? NULL : mempool_taken(pool, element);
}

static void *take_preallocated(struct sheaf_mempool *pool)
{
	void *element;

	if (!os_load_relaxed(&pool->nr))
		return NULL;
	os_lock(&pool->lock);
	element = mempool_take(pool);
	os_unlock(&pool->lock);
	return mempool_taken(pool, element);
}

SHEAF_PUBLIC void *mempool_alloc_preallocated(mempool_t *pool)
{
	if (!mempool_of(pool))
		return mempool_report_wrong(pool, "mempool_alloc_preallocated");
	return take_preallocated(pool->reserve);
}

/* Take an element from the reserve; wait for one if necessary, for at most ms milliseconds; or
 * return NULL. */
static void *wait_for_element(struct sheaf_mempool *pool, uint32_t ms)
{
	void *element;
	uint32_t turn;

	os_lock(&pool->lock);
	element = mempool_take(pool);
	if (!element) {
		os_assert(!os_peek(&pool->nr)); /* MEMPOOL-N2 */
		os_store_relaxed(&pool->waiters, pool->waiters + 1);
		turn = pool->turn;
		os_unlock(&pool->lock);
		os_wait(&pool->turn, turn, ms);
		os_lock(&pool->lock);
		os_assert(os_peek(&pool->waiters)); /* MEMPOOL-N2 */
		os_store_relaxed(&pool->waiters, pool->waiters - 1);
		element = mempool_take(pool);
	}
	os_unlock(&pool->lock);
	return mempool_taken(pool, element);
}

OS_NOINLINE void *mempool_call_alloc_fn(const struct sheaf_mempool *pool, gfp_t gfp)
{
	OS_KEEP_ERRNO;

	return pool->over.alloc(gfp, pool->over.data);
}

OS_NOINLINE void mempool_call_free_fn(const struct sheaf_mempool *pool, void *element)
{
	OS_KEEP_ERRNO;

	pool->over.free(element, pool->over.data);
}

/* After a first attempt without waiting. */
static OS_NOINLINE void *alloc_slowly(struct sheaf_mempool *pool, gfp_t gfp)
{
	bool may_wait = gfp & __GFP_DIRECT_RECLAIM;
	void *element = take_preallocated(pool);

	for (uint32_t ms = 1; !element && may_wait; ms = ms < LONGEST_MS ? 2 * ms : ms) {
		element = mempool_call_alloc(pool, gfp);
		if (!element)
			element = wait_for_element(pool, ms);
	}
	return element;
}

SHEAF_PUBLIC void *mempool_alloc(mempool_t *handle, gfp_t gfp)
{
	struct sheaf_mempool *pool = mempool_of(handle);
	void *element;

	if (os_unlikely(!pool))
		return mempool_report_wrong(handle, "mempool_alloc");
	if (gfp & __GFP_ZERO)
		os_report_once(&pool->warned_zero,
			       "mempool_alloc(%p): __GFP_ZERO does not apply to elements of the "
			       "reserve; ignored. Clear the memory after the call",
			       (void *)handle);
	/* The pool never fails because it waits for its own elements, so the allocator may fail. */
	gfp &= ~(__GFP_ZERO | __GFP_NOFAIL);
	element = mempool_call_alloc(pool,
				     (gfp & ~__GFP_DIRECT_RECLAIM) | __GFP_NORETRY | __GFP_NOWARN);
	return element ? element : alloc_slowly(pool, gfp);
}

OS_NOINLINE bool mempool_give(struct sheaf_mempool *pool, void *element)
{
	if (os_watched() && !mempool_see_freed(pool, element))
		return false;
	element = put_element(pool, element);
	if (element)
		mempool_call_free(pool, element);
	return true;
}

SHEAF_PUBLIC void mempool_free(void *element, mempool_t *handle)
{
	struct sheaf_mempool *pool = mempool_of(handle);

	if (!element)
		return;
	if (os_unlikely(!pool))
		mempool_report_wrong(handle, "mempool_free");
	else if (pool_has_room(pool))
		mempool_give(pool, element);
	else
		mempool_call_free(pool, element);
}
