/* SPDX-License-Identifier: MIT */
/* Memory pools: created, resized, destroyed; the list of all. See mempool.h. Callers: programs. */
#include "kmalloc/mempool.h"

#include "cache/reclaim.h"
#include "kmalloc/kmalloc.h"
#include "page/pool.h"

#define MIN_NR_MAX 262144

/* --- all pools, so that a forked child inherits no lock that a vanished thread holds ---------- */

static struct os_lock list_lock = OS_LOCK_INIT(OS_RANK_MEMPOOL);
static struct sheaf_mempool *first_pool;

/* These are many locks of one rank, so by try-lock; the holder of one waits for no other thread. */
void mempool_lock_all(void)
{
	os_lock(&list_lock);
	for (struct sheaf_mempool *pool = first_pool; pool; pool = pool->next)
		while (!os_trylock(&pool->lock))
			os_sleep_briefly();
}

void mempool_unlock_all(void)
{
	for (struct sheaf_mempool *pool = first_pool; pool; pool = pool->next)
		os_unlock(&pool->lock);
	os_unlock(&list_lock);
}

/* The waiting threads do not exist there. */
void mempool_in_child(void)
{
	for (struct sheaf_mempool *pool = first_pool; pool; pool = pool->next)
		pool->waiters = pool->bulk_waiters = pool->claimed = 0;
}

static void mempool_enlist(struct sheaf_mempool *pool)
{
	os_lock(&list_lock);
	pool->next = first_pool;
	first_pool = pool;
	os_unlock(&list_lock);
}

/* The listed pool with this handle; NULL: there is none. */
static struct sheaf_mempool *find_listed(mempool_t *handle)
{
	struct sheaf_mempool *pool;

	os_lock(&list_lock);
	for (pool = first_pool; pool; pool = pool->next)
		if (&pool->handle == handle || pool == handle->reserve)
			break;
	os_unlock(&list_lock);
	return pool;
}

static void mempool_unlist(struct sheaf_mempool *pool)
{
	struct sheaf_mempool **at = &first_pool;

	os_lock(&list_lock);
	while (*at != pool)
		at = &(*at)->next;
	*at = pool->next;
	os_unlock(&list_lock);
}

/* --- the reserve of a pool -------------------------------------------------------------------- */

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

/* Fill the reserve from the allocator. Returns 0, -ENOMEM, or -EINVAL after a report. */
static int fill_pool(struct sheaf_mempool *pool, gfp_t gfp, const char *call)
{
	while (os_load_relaxed(&pool->nr) < os_load_relaxed(&pool->min_nr)) {
		void *element = mempool_call_alloc(pool, gfp);

		if (!element)
			return -ENOMEM;
		if (mempool_give(pool, element))
			continue;
		os_misuse(NULL,
			  "%s: alloc_fn returned %p, which free_fn cannot free; the call fails. "
			  "Both must use the same allocator",
			  call, element);
		return -EINVAL;
	}
	return 0;
}

/* Free the elements above the minimum. */
static void trim(struct sheaf_mempool *pool)
{
	void *element, *right;

	do {
		os_lock(&pool->lock);
		element = pool->nr > pool->min_nr ? mempool_take(pool) : NULL;
		os_unlock(&pool->lock);
		right = mempool_taken(pool, element);
		if (right)
			mempool_call_free(pool, right);
	} while (element);
}

/* Zeroed memory for the pool itself. Of the caller's flags, only whether it may wait matters. */
static void *own_memory(size_t bytes, gfp_t gfp)
{
	void *memory;

	if (!caches_ready())
		return NULL;
	for (int tries = 0; !(memory = pool_alloc(bytes)); tries++)
		if (!reclaim_for(NULL, gfp & ~__GFP_NOFAIL, tries))
			break;
	return memory;
}

static void free_array(void **elements, uint32_t room)
{
	pool_give_back(elements, room * sizeof(*elements));
}

/* n elements are the size of the reserve from now on. False: there is no memory for its array. */
static bool make_room_for(struct sheaf_mempool *pool, uint32_t n, gfp_t gfp)
{
	uint32_t room = n ? n : 1, unused_room = room;
	void **unused = NULL;

	if (room > os_load_relaxed(&pool->room) &&
	    !(unused = own_memory(room * sizeof(*unused), gfp)))
		return false;
	os_lock(&pool->lock);
	/* Otherwise another thread made room at the same time. */
	if (room > pool->room) {
		void **larger = unused;

		os_assert(larger && os_peek(&pool->nr) <= pool->room); /* MEMPOOL-N1 */
		unused = pool->elements;
		unused_room = pool->room;
		if (pool->nr)
			memcpy(larger, unused, pool->nr * sizeof(*larger));
		pool->elements = larger;
		os_store_relaxed(&pool->room, room);
	}
	os_store_relaxed(&pool->min_nr, n);
	os_unlock(&pool->lock);
	free_array(unused, unused_room);
	return true;
}

void *mempool_report_wrong(mempool_t *handle, const char *call)
{
	if (handle)
		os_misuse(NULL,
			  "%s(%p): not a memory pool, or it is not initialised, or was destroyed "
			  "before; the call is ignored. Destroy it once, after its last use",
			  call, (void *)handle);
	else
		os_misuse(NULL,
			  "%s(NULL): the pool is NULL; the call is ignored. Check what "
			  "mempool_create() returned",
			  call);
	return NULL;
}

/* NULL after a report: there is no such pool. */
static struct sheaf_mempool *find_pool(mempool_t *handle, const char *call)
{
	struct sheaf_mempool *pool = handle ? find_listed(handle) : NULL;

	return pool ? pool : mempool_report_wrong(handle, call);
}

SHEAF_PUBLIC int mempool_resize(mempool_t *handle, int new_min_nr)
{
	struct sheaf_mempool *pool = find_pool(handle, "mempool_resize");
	uint32_t n = (uint32_t)new_min_nr, before;
	int error;

	if (!pool || is_wrong(new_min_nr, "mempool_resize"))
		return -EINVAL;
	before = os_load_relaxed(&pool->min_nr);
	if (!make_room_for(pool, n, GFP_KERNEL))
		return -ENOMEM;
	/* Even if the minimum grew: another thread may have filled a larger reserve meanwhile. */
	trim(pool);
	if (n < before)
		return 0;
	/* If it is unchanged: an earlier call may not have filled the reserve. */
	error = fill_pool(pool, GFP_KERNEL, "mempool_resize");
	if (error == -EINVAL) {
		os_lock(&pool->lock);
		if (pool->min_nr == n)
			os_store_relaxed(&pool->min_nr, before);
		os_unlock(&pool->lock);
		trim(pool);
	}
	return error;
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
	os_store_relaxed(&pool->min_nr, 0);
	trim(pool);
	os_assert(!os_peek(&pool->nr)); /* MEMPOOL-N1 */
	mempool_unlist(pool);
	free_array(pool->elements, pool->room);
	pool_free(pool, sizeof(*pool));
	return true;
}

/* Returns 0 and a pool, -EINVAL after a report, or -ENOMEM. */
static int make_pool(struct sheaf_mempool **made, int min_nr, struct mempool_over over, gfp_t gfp,
		     const char *call)
{
	struct sheaf_mempool *pool;
	int error = -ENOMEM;

	if (is_missing((const void *)over.alloc, call, "alloc_fn") ||
	    is_missing((const void *)over.free, call, "free_fn") || is_wrong(min_nr, call))
		return -EINVAL;
	if ((over.alloc == mempool_alloc_slab || over.free == mempool_free_slab) &&
	    cache_is_unusable(over.data, call))
		return -EINVAL;
	pool = own_memory(sizeof(*pool), gfp);
	if (!pool)
		return -ENOMEM;
	os_lock_init(&pool->lock, OS_RANK_MEMPOOL);
	pool->handle.reserve = pool;
	pool->over = over;
	mempool_enlist(pool);
	if (make_room_for(pool, (uint32_t)min_nr, gfp))
		error = fill_pool(pool, gfp, call);
	if (error) {
		unmake_pool(pool, &pool->handle, call);
		return error;
	}
	*made = pool;
	return 0;
}

mempool_t *mempool_create_for(int min_nr, struct mempool_over over, gfp_t gfp, const char *call)
{
	struct sheaf_mempool *pool;

	return make_pool(&pool, min_nr, over, gfp, call) ? NULL : &pool->handle;
}

SHEAF_PUBLIC mempool_t *mempool_create_node(int min_nr, mempool_alloc_fn alloc_fn,
					    mempool_free_fn free_fn, void *pool_data, gfp_t gfp,
					    int node)
{
	(void)node;
	return mempool_create_for(min_nr, (struct mempool_over){alloc_fn, free_fn, pool_data}, gfp,
				  "mempool_create_node");
}

SHEAF_PUBLIC mempool_t *mempool_create(int min_nr, mempool_alloc_fn alloc_fn,
				       mempool_free_fn free_fn, void *pool_data)
{
	return mempool_create_for(min_nr, (struct mempool_over){alloc_fn, free_fn, pool_data},
				  GFP_KERNEL, "mempool_create");
}

int mempool_init_for(mempool_t *handle, int min_nr, struct mempool_over over, gfp_t gfp,
		     const char *call)
{
	if (!handle) {
		mempool_report_wrong(NULL, call);
		return -EINVAL;
	}
	handle->reserve = NULL;
	return make_pool(&handle->reserve, min_nr, over, gfp, call);
}

SHEAF_PUBLIC int mempool_init_node(mempool_t *handle, int min_nr, mempool_alloc_fn alloc_fn,
				   mempool_free_fn free_fn, void *pool_data, gfp_t gfp, int node)
{
	(void)node;
	return mempool_init_for(handle, min_nr, (struct mempool_over){alloc_fn, free_fn, pool_data},
				gfp, "mempool_init_node");
}

SHEAF_PUBLIC int mempool_init(mempool_t *handle, int min_nr, mempool_alloc_fn alloc_fn,
			      mempool_free_fn free_fn, void *pool_data)
{
	return mempool_init_for(handle, min_nr, (struct mempool_over){alloc_fn, free_fn, pool_data},
				GFP_KERNEL, "mempool_init");
}

/* Memory that is all zero is allowed. */
SHEAF_PUBLIC void mempool_exit(mempool_t *handle)
{
	struct sheaf_mempool *pool;

	if (handle && !handle->reserve)
		return;
	pool = find_pool(handle, "mempool_exit");
	if (pool && unmake_pool(pool, handle, "mempool_exit"))
		handle->reserve = NULL;
}

SHEAF_PUBLIC void mempool_destroy(mempool_t *handle)
{
	struct sheaf_mempool *pool = handle ? find_pool(handle, "mempool_destroy") : NULL;

	if (pool)
		unmake_pool(pool, handle, "mempool_destroy");
}
