/* SPDX-License-Identifier: MIT */
/*
 * The library in its process: first use, and fork.
 *
 * First use may be in another library's constructor, so nothing here is one. Nothing is torn down
 * at exit either: other destructors may still free objects.
 *
 * fork: prepare takes every lock a forking thread's child could need, in rank order; the parent
 * releases them, and so does the child, which then forgets what vanished threads had in hand.
 */
#include <errno.h>
#include <pthread.h>

#include "cache/cache.h"
#include "os/atomic.h"
#include "os/machine.h"
#include "os/report.h"
#include "page/pool.h"

enum {
	NOT_READY,
	READY,
	FAILED
};

struct caches caches = {.lock = OS_LOCK_INIT(OS_RANK_CACHES)};

/* Call each for every node list there is. */
static void for_each_node(void (*each)(struct slab_node *node))
{
	for (struct kmem_cache *s = caches.first; s; s = s->next)
		for (uint32_t i = 0; i < os.nr_nodes; i++) {
			struct slab_node *node = os_load_acquire(&s->sheaf.slab.nodes[i]);

			if (node)
				each(node);
		}
}

/* Many locks of one rank, so by try-lock. */
static void lock_node(struct slab_node *node)
{
	while (!os_trylock(&node->lock))
		os_yield();
	node->locked_by_fork = 1;
}

/* A node that was made after lock_nodes() passed is not ours to unlock. */
static void unlock_node(struct slab_node *node)
{
	if (!node->locked_by_fork)
		return;
	node->locked_by_fork = 0;
	os_unlock(&node->lock);
}

/* In the child nobody else is left who could unlock it, and its list may be half changed. */
static void reset_unlocked_node(struct slab_node *node)
{
	if (node->locked_by_fork || !os_lock_held(&node->lock))
		return;
	os_lock_init(&node->lock, OS_RANK_NODE);
	node->first = node->last = NULL;
	node->nr_partial = 0;
}

static void before_fork(void)
{
	os_lock(&caches.lock);
	sheaf_lock_drains();
	for_each_node(lock_node);
	pool_lock();
	page_lock_all();
}

static void after_fork(void)
{
	page_unlock_all();
	pool_unlock();
	for_each_node(unlock_node);
	sheaf_unlock_drains();
	os_unlock(&caches.lock);
}

static void after_fork_in_child(void)
{
	os_after_fork();
	for_each_node(reset_unlocked_node);
	after_fork();
	for (struct kmem_cache *s = caches.first; s; s = s->next)
		caches.fork_lost += sheaf_after_fork(&s->sheaf);
}

static bool initialise(void)
{
	os_init();
	if (!page_init() || !sheaf_init())
		return false;
	return pthread_atfork(before_fork, after_fork, after_fork_in_child) == 0;
}

bool caches_ready(void)
{
	uint32_t ready = os_load_acquire(&caches.ready);

	if (ready != NOT_READY)
		return ready == READY;
	os_lock(&caches.lock);
	if (caches.ready == NOT_READY) {
		int saved = errno;
		bool done = initialise();

		if (!done)
			os_report("no address space for the library (ulimit -v?); caches cannot be "
				  "made");
		errno = saved;
		os_store_release(&caches.ready, done ? READY : FAILED);
	}
	os_unlock(&caches.lock);
	return caches.ready == READY;
}
