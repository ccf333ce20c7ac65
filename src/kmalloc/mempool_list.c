/* SPDX-License-Identifier: MIT */
/*
 * The list of all memory pools, so that a forked child inherits no lock that a vanished thread
 * holds. Callers: mempool_make.c, fork.
 */
#include "cache/cache.h"
#include "kmalloc/mempool.h"

static struct os_lock list_lock = OS_LOCK_INIT(OS_RANK_MEMPOOL);
static struct sheaf_mempool *first_pool;

/* These are many locks of one rank, so by try-lock; the holder of one waits for no other thread. */
static void lock_all(void)
{
	os_lock(&list_lock);
	for (struct sheaf_mempool *pool = first_pool; pool; pool = pool->next)
		while (!os_trylock(&pool->lock))
			os_sleep_briefly();
}

static void unlock_all(void)
{
	for (struct sheaf_mempool *pool = first_pool; pool; pool = pool->next)
		os_unlock(&pool->lock);
	os_unlock(&list_lock);
}

/* In a forked child, the waiting threads no longer exist. */
static void forget_waiters(void)
{
	for (struct sheaf_mempool *pool = first_pool; pool; pool = pool->next)
		pool->waiters = 0;
}

static const struct fork_part around_fork = {lock_all, unlock_all, forget_waiters};

void mempool_enlist(struct sheaf_mempool *pool)
{
	cache_join_fork(&around_fork);
	os_lock(&list_lock);
	pool->next = first_pool;
	first_pool = pool;
	os_unlock(&list_lock);
}

struct sheaf_mempool *mempool_find(mempool_t *handle)
{
	struct sheaf_mempool *pool;

	os_lock(&list_lock);
	for (pool = first_pool; pool; pool = pool->next)
		if (&pool->handle == handle || pool == handle->reserve)
			break;
	os_unlock(&list_lock);
	return pool;
}

void mempool_unlist(struct sheaf_mempool *pool)
{
	struct sheaf_mempool **at = &first_pool;

	os_lock(&list_lock);
	while (*at != pool)
		at = &(*at)->next;
	*at = pool->next;
	os_unlock(&list_lock);
}
