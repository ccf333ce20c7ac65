/* SPDX-License-Identifier: MIT */
/* Shrink and destroy a cache. */
#include <sheaf/rcu.h>

#include "cache/account.h"
#include "cache/destroyed_stats.h"
#include "cache/list.h"
#include "cache/publish.h"
#include "cache/verify.h"
#include "percpu/barn/barn.h"
#include "percpu/rows.h"
#include "percpu/sheaf.h"
#include "rcu/rcu_free.h"
#include "slab/drain_marks.h"
#include "slab/rcu_free_slab.h"

#define LIST_MAX 20 /* live objects that are listed one by one */

void cache_report_unusable(struct kmem_cache *s, const char *call)
{
	if (s)
		os_misuse_later(NULL,
				"%s(%p): this cache was destroyed; the call is ignored. Destroy it "
				"after its last use",
				call, (void *)s);
	else
		os_misuse_later(NULL,
				"%s(NULL): the cache is NULL; the call is ignored. Check what "
				"kmem_cache_create() returned",
				call);
}

bool cache_is_unusable(struct kmem_cache *s, const char *call)
{
	if (s && s->name && !cache_is_leaked(s))
		return false;
	cache_report_unusable(s, call);
	cache_leave();
	return true;
}

uintptr_t cache_report_null(const char *call)
{
	cache_is_unusable(NULL, call);
	return 0;
}

bool cache_is_unusable_nowait(struct kmem_cache *s, const char *call)
{
	if (s && s->name && !cache_is_leaked(s))
		return false;
	cache_report_unusable(s, call);
	os_report_kept_nowait();
	return true;
}

SHEAF_PUBLIC int kmem_cache_shrink(struct kmem_cache *s)
{
	unsigned int left;

	if (cache_is_unusable(s, "kmem_cache_shrink"))
		return -EINVAL;
	sheaf_forget_flow(&s->sheaf);
	cache_see_flow(s);
	os_fetch_add(&slab_rest(&s->sheaf.slab)->shrinking, 1);
	left = cache_give_up_free(s);
	os_fetch_sub(&slab_rest(&s->sheaf.slab)->shrinking, 1);
	cache_leave();
	return left != 0;
}

void cache_unmake(struct kmem_cache *s)
{
	guard_forget(&s->sheaf.slab);
	sheaf_rcu_exit(&s->sheaf);
	late_exit(&s->sheaf.slab);
	barn_exit(&s->sheaf);
	debug_cache_exit(&s->sheaf.slab);
	list_forget_name(s);
	cache_refuse_calls(s);
}

/* Every object is free, and none waits: free the cache itself. */
static void release(struct kmem_cache *s)
{
	os_lock(&caches.lock);
	list_remove(s);
	destroyed_stats_add(s);
	os_unlock(&caches.lock);
	cache_leave_group(s);
	cache_unmake(s);
	os_lock(&caches.lock);
	publish_end(s);
	slab_forget_marked(&s->sheaf.slab);
	rows_give(s);
	os_unlock(&caches.lock);
}

static void report_live(struct kmem_cache *s)
{
	void *listed[LIST_MAX];
	size_t live, n;

	/* The program may free them later, and then uses the cache. */
	s->sheaf.quiet = 0;
	cache_refuse_allocations(s);
	live = cache_live_objects(s, listed, LIST_MAX);
	list_show(s);
	if (cache_knows_users(s))
		debug_report_leaks(&s->sheaf.slab, "when it is destroyed");
	n = live < LIST_MAX ? live : LIST_MAX;
	for (size_t i = 0; i < n; i++)
		os_misuse(s->name, "kmem_cache_destroy(%s): object %p is still in use", s->name,
			  listed[i]);
	os_misuse(s->name,
		  "kmem_cache_destroy(%s): %zu object%s still in use (%zu listed above); the "
		  "cache is leaked, so that its objects stay usable. Free them first",
		  s->name, live, os_plural(live), n);
}

/* With no lock held: wait until retired objects are freed, until no object is in quarantine or out
 * of use, and until slabs with a delayed free are gone. */
static void finish_retired(struct kmem_cache *s)
{
	if (s->sheaf.rcu || os_load_relaxed(&s->used_rcu_any))
		kvfree_rcu_barrier_on_cache(s);
	quarantine_end(&s->sheaf.slab);
	if (cache_is_checked(s))
		cache_give_leaked(s);
	if (s->sheaf.slab.late) {
		cache_give_up_free(s);
		kvfree_rcu_barrier_on_cache(s);
	}
}

/* Drop one name. Returns true if it was the last one: no thread can get the cache after that. */
static bool give_up_name(struct kmem_cache *s)
{
	bool known, last = false;

	os_lock(&caches.lock);
	known = s->nr_names != 0;
	if (known) {
		os_store_relaxed(&s->nr_names, s->nr_names - 1);
		last = s->nr_names == 0;
		s->sheaf.quiet = last;
		if (last)
			list_hide(s);
		publish_cache(s);
	}
	os_unlock(&caches.lock);
	if (!known)
		os_misuse(NULL,
			  "kmem_cache_destroy(%p): this cache was destroyed already; the call is "
			  "ignored",
			  (void *)s);
	return last;
}

SHEAF_PUBLIC void kmem_cache_destroy(struct kmem_cache *s)
{
	if (!s || !give_up_name(s))
		return;
	/* A thread that pins the cache may hold an empty slab, which is not returned then. */
	list_wait_unpinned(s);
	finish_retired(s);
	if (!cache_give_up_free(s) && !guard_live(&s->sheaf.slab, NULL, 0))
		release(s);
	else
		report_live(s);
	cache_leave();
}
