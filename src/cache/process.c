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

static void lock_nodes(void)
{
	for (struct kmem_cache *s = caches.first; s; s = s->next)
		for (uint32_t node = 0; node < os.nr_nodes; node++)
			while (s->sheaf.slab.nodes[node] &&
			       !os_trylock(&s->sheaf.slab.nodes[node]->lock))
				os_yield();
}

static void unlock_nodes(void)
{
	for (struct kmem_cache *s = caches.first; s; s = s->next)
		for (uint32_t node = 0; node < os.nr_nodes; node++)
			if (s->sheaf.slab.nodes[node] &&
			    os_lock_held(&s->sheaf.slab.nodes[node]->lock))
				os_unlock(&s->sheaf.slab.nodes[node]->lock);
}

static void before_fork(void)
{
	os_lock(&caches.lock);
	sheaf_lock_drains();
	lock_nodes();
	pool_lock();
	page_lock_all();
}

static void after_fork_in_parent(void)
{
	page_unlock_all();
	pool_unlock();
	unlock_nodes();
	sheaf_unlock_drains();
	os_unlock(&caches.lock);
}

static void after_fork_in_child(void)
{
	os_after_fork();
	after_fork_in_parent();
	for (struct kmem_cache *s = caches.first; s; s = s->next)
		caches.fork_lost += sheaf_after_fork(&s->sheaf);
}

static bool initialise(void)
{
	os_init();
	if (!page_init() || !sheaf_init())
		return false;
	return pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
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
