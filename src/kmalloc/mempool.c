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
	if (pool->nr <= pool->claimed)
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
	uint32_t wake = 0;
	bool done;

	tsan_release(element);
	os_lock(&pool->lock);
	done = pool_has_room(pool);
	if (done) {
		pool->elements[pool->nr] = element;
		os_store_relaxed(&pool->nr, pool->nr + 1);
		/* MEMPOOL-N1, MEMPOOL-N5 */
		os_assert(os_peek(&pool->nr) <= (pool->min_nr ? pool->min_nr : 1));
		os_assert(os_peek(&pool->nr) <= pool->room);
		/* One that wants several may still lack some, so another one must be awake, too. */
		wake = pool->bulk_waiters ? pool->waiters : pool->waiters != 0;
	}
	if (wake)
		os_store_relaxed(&pool->turn, pool->turn + 1);
	os_unlock(&pool->lock);
	for (; wake; wake--)
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

/* With the lock held: claim n elements, all or none. */
static bool claim_elements(struct sheaf_mempool *pool, uint32_t n)
{
	bool there = pool->nr - pool->claimed >= n;

	os_assert(os_peek(&pool->claimed) <= os_peek(&pool->nr)); /* MEMPOOL-N8 */
	pool->claimed += there ? n : 0;
	return there;
}

/* Claim n elements of the reserve; wait for them if necessary, for at most ms milliseconds; 0: do
 * not wait. */
static bool claim_or_wait(struct sheaf_mempool *pool, uint32_t n, uint32_t ms)
{
	uint32_t turn;
	bool there;

	os_lock(&pool->lock);
	there = claim_elements(pool, n);
	if (!there && ms) {
		os_store_relaxed(&pool->waiters, pool->waiters + 1);
		pool->bulk_waiters += n > 1;
		turn = pool->turn;
		os_unlock(&pool->lock);
		os_wait(&pool->turn, turn, ms);
		os_lock(&pool->lock);
		os_assert(os_peek(&pool->waiters)); /* MEMPOOL-N2 */
		os_store_relaxed(&pool->waiters, pool->waiters - 1);
		pool->bulk_waiters -= n > 1;
		there = claim_elements(pool, n);
	}
	os_unlock(&pool->lock);
	return there;
}

/* In a child that was forked since the claim, there may be none. */
static void *take_claimed(struct sheaf_mempool *pool)
{
	void *element;

	os_lock(&pool->lock);
	pool->claimed -= pool->claimed != 0;
	element = mempool_take(pool);
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

static uint32_t longer(uint32_t ms)
{
	return ms < LONGEST_MS ? 2 * ms : ms;
}

/* After a first attempt without waiting. */
static OS_NOINLINE void *alloc_slowly(struct sheaf_mempool *pool, gfp_t gfp)
{
	bool may_wait = gfp & __GFP_DIRECT_RECLAIM;
	void *element = take_preallocated(pool);

	for (uint32_t ms = 1; !element && may_wait; ms = longer(ms)) {
		element = mempool_call_alloc(pool, gfp);
		if (!element && claim_or_wait(pool, 1, ms))
			element = take_claimed(pool);
	}
	return element;
}

/* What the first attempt may do. */
static gfp_t without_reclaim(gfp_t gfp)
{
	return (gfp & ~__GFP_DIRECT_RECLAIM) | __GFP_NORETRY | __GFP_NOWARN;
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
	element = mempool_call_alloc(pool, without_reclaim(gfp));
	return element ? element : alloc_slowly(pool, gfp);
}

SHEAF_PUBLIC void *mempool_alloc_noreserve(mempool_t *handle, gfp_t gfp)
{
	struct sheaf_mempool *pool = mempool_of(handle);

	return pool ? mempool_call_alloc(pool, gfp)
		    : mempool_report_wrong(handle, "mempool_alloc_noreserve");
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

SHEAF_PUBLIC bool mempool_is_saturated(mempool_t *handle)
{
	struct sheaf_mempool *pool = mempool_of(handle);

	if (!pool)
		return mempool_report_wrong(handle, "mempool_is_saturated");
	return os_load_relaxed(&pool->nr) >= os_load_relaxed(&pool->min_nr);
}

/* --- many elements ---------------------------------------------------------------------------- */

static unsigned int nr_missing(void *const *elements, unsigned int count)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < count; i++)
		n += !elements[i];
	return n;
}

/* Ask the allocator for what is missing, until it has no more. Returns the number still missing. */
static unsigned int fill_from_allocator(struct sheaf_mempool *pool, gfp_t gfp, void **elements,
					unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		if (!elements[i] && !(elements[i] = mempool_call_alloc(pool, gfp)))
			break;
	return nr_missing(elements, count);
}

static unsigned int fill_from_claimed(struct sheaf_mempool *pool, void **elements,
				      unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		if (!elements[i])
			elements[i] = take_claimed(pool);
	return nr_missing(elements, count);
}

SHEAF_PUBLIC int mempool_alloc_bulk(mempool_t *handle, void **elements, unsigned int count,
				    unsigned int allocated)
{
	struct sheaf_mempool *pool = mempool_of(handle);
	unsigned int missing = pool ? nr_missing(elements, count) : 0;

	(void)allocated;
	if (!pool) {
		mempool_report_wrong(handle, "mempool_alloc_bulk");
		return -EINVAL;
	}
	if (missing > os_load_relaxed(&pool->min_nr)) {
		os_misuse(
			NULL,
			"mempool_alloc_bulk(%p): %u elements are missing, and the reserve has %u; "
			"ignored. Enlarge it with mempool_resize(), or ask for fewer",
			(void *)handle, missing, os_load_relaxed(&pool->min_nr));
		return -EINVAL;
	}
	missing = fill_from_allocator(pool, without_reclaim(GFP_KERNEL), elements, count);
	for (uint32_t ms = 0; missing; ms = ms ? longer(ms) : 1) {
		if (ms)
			missing = fill_from_allocator(pool, GFP_KERNEL, elements, count);
		if (missing && claim_or_wait(pool, missing, ms))
			missing = fill_from_claimed(pool, elements, count);
	}
	return 0;
}

SHEAF_PUBLIC unsigned int mempool_free_bulk(mempool_t *handle, void **elements, unsigned int count)
{
	struct sheaf_mempool *pool = mempool_of(handle);
	unsigned int done;

	if (!pool) {
		mempool_report_wrong(handle, "mempool_free_bulk");
		return 0;
	}
	for (done = 0; done < count && pool_has_room(pool); done++) {
		void *element = elements[done];

		elements[done] = NULL;
		if (element)
			mempool_give(pool, element);
	}
	return done;
}
