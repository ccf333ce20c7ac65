/* SPDX-License-Identifier: MIT */
/* Allocating and freeing in any context: nothing here waits or spins, or takes a lock except by
 * try-lock. */

#include <sheaf/rcu.h>

#include "cache/account.h"
#include "cache/block.h"
#include "cache/hardened.h"
#include "percpu/percpu.h"
#include "percpu/remote.h"
#include "rcu/stat.h"

/* Take an object from a slab of this node, or of any node; at last from a new one. */
static void *take_try(struct kmem_cache *s, unsigned int node)
{
	for (uint32_t i = 0; i < 2 * os.nr_nodes; i++) {
		unsigned int of = os_near(node, i % os.nr_nodes);
		void *object;

		if (i < os.nr_nodes ? slab_take_try(&s->sheaf.slab, of, &object)
				    : slab_take_new_try(&s->sheaf.slab, of, &object)) {
			stat_add(&s->sheaf.slab, STAT_alloc_slowpath, 1);
			return object;
		}
	}
	return NULL;
}

/* A wrong object is left out, and not replaced: that could take a wait. */
static OS_COLD void *watch_taken_nolock(struct kmem_cache *s, void *object)
{
	if (object && cache_is_hardened(s) && !hardened_take_try(s, object))
		return NULL;
	tsan_acquire(object);
	return object;
}

/* The program gets nothing: return the object. */
static OS_COLD void *charge(struct kmem_cache *s, void *object, gfp_t gfp)
{
	if (!object || account_taken_nowait(s, gfp, object, GROUP_TRY))
		return object;
	kmem_cache_free_nolock(s, object);
	return NULL;
}

/* Sheaves hold objects of this CPU's node. */
void *cache_alloc_try(struct kmem_cache *s, gfp_t gfp, unsigned int node)
{
	bool here = node == os_node();
	void *object = NULL;

	gfp = cache_check_gfp_later(s, gfp);
	if (cache_is_checked(s) && debug_fails(&s->sheaf.slab, gfp)) {
		os_report_kept_nowait();
		return NULL;
	}
	/* A constructor may do anything. */
	if (!s->sheaf.slab.ctor && cache_guards_next(s))
		object = cache_alloc_guarded(s);
	if (!object && !here)
		object = take_try(s, node);
	if (!object && s->sheaf.barns)
		object = nolock_alloc(&s->sheaf);
	if (!object && here)
		object = take_try(s, node);
	if (object && cache_is_checked(s) && !guard_is_ours(object) &&
	    !cache_take_checked(s, object))
		object = NULL;
	if (os_watched())
		object = charge(s, watch_taken_nolock(s, object), gfp);
	if (object && (gfp & __GFP_ZERO))
		cache_zero(s, object);
	stat_add(&s->sheaf.slab, STAT_nolock_fail, object == NULL);
	os_report_kept_nowait();
	return object;
}

SHEAF_PUBLIC void *kmem_cache_alloc_nolock(struct kmem_cache *s, gfp_t gfp)
{
	if (cache_is_unusable_nowait(s, "kmem_cache_alloc_nolock"))
		return NULL;
	return cache_alloc_try(s, gfp, os_node());
}

SHEAF_PUBLIC void kmem_cache_free_nolock(struct kmem_cache *s, void *object)
{
	if (!object)
		return;
	if (!s || !s->name) {
		cache_is_unusable_nowait(s, "kmem_cache_free_nolock");
		return;
	}
	if (guard_is_ours(object)) {
		cache_free_guarded(s, object, false, "kmem_cache_free_nolock");
		os_report_kept_nowait();
		return;
	}
	if (!cache_freed(s, object, "kmem_cache_free_nolock") ||
	    (cache_is_checked(s) &&
	     !cache_free_checked(s, object, false, "kmem_cache_free_nolock"))) {
		os_report_kept_nowait();
		return;
	}
	if (s->sheaf.barns && !cache_is_leaked(s) && page_is_ours(object) &&
	    page_node(object) == os_node() && nolock_free(&s->sheaf, object))
		return;
	stat_add(&s->sheaf.slab, STAT_free_slowpath, 1);
	if (cache_is_checked(s))
		debug_give(&s->sheaf.slab, object, true, "kmem_cache_free_nolock");
	else
		slab_give_nolock(&s->sheaf.slab, object, "kmem_cache_free_nolock");
	os_report_kept_nowait();
}

/* --- retiring --------------------------------------------------------------------------------- */

/* Into this CPU's sheaves, which another call made. */
static bool push_here(struct kmem_cache *s, void *object)
{
	return section_push_rcu(&s->sheaf.at, object) || sheaf_push_remote((char *)s, object, true);
}

static bool push_retired(struct kmem_cache *s, void *object)
{
	if (push_here(s, object))
		return true;
	stat_add(&s->sheaf.slab, STAT_free_rcu_sheaf_fail, 1);
	/* Barriers on the cache look there, too. */
	os_store_relaxed(&s->used_rcu_any, 1);
	return false;
}

/* An object without a head and with a mark gets its place before the mark changes: what is refused
 * stays in use. */
static int retire_headless(struct kmem_cache *s, struct grace *grace, void *object,
			   const char *call)
{
	struct rcu_shard *place;
	bool right;

	if (!cache_is_hardened(s) && page_owner(object) == &s->sheaf.slab && push_here(s, object))
		return 0;
	place = rcu_any_reserve(grace);
	if (!place)
		return -EAGAIN;
	right = cache_retire(s, object, call);
	rcu_any_store(grace, place, right && !push_retired(s, object) ? object : NULL);
	return right ? 0 : -EINVAL;
}

SHEAF_PUBLIC int kmem_cache_free_rcu_nolock(struct kmem_cache *s, void *object)
{
	static const char call[] = "kmem_cache_free_rcu_nolock";
	struct grace *grace;
	int result = 0;

	if (!object)
		return 0;
	if (!s || !s->name) {
		cache_is_unusable_nowait(s, call);
		return -EINVAL;
	}
	grace = cache_grace(s, object);
	if (grace)
		result = retire_headless(s, grace, object, call);
	else
		kmem_cache_free_nolock(s, object);
	os_report_kept_nowait();
	return result;
}

SHEAF_PUBLIC void __kfree_rcu_nolock(const void *pointer, size_t offset)
{
	static const char call[] = "kfree_rcu_nolock";
	void *object = (void *)(uintptr_t)pointer;
	struct slab_cache *owner = page_owner(object);
	struct kmem_cache *s = owner ? cache_of_slab(owner) : NULL;
	struct grace *grace;

	if (ZERO_OR_NULL_PTR(pointer))
		return;
	if (guard_is_ours(object))
		s = cache_of_guarded(object);
	if (!s) {
		os_misuse_later(NULL,
				"%s(%p): not an object of any cache; ignored. Retire a large block "
				"with kfree_rcu()",
				call, object);
		os_report_kept_nowait();
		return;
	}
	grace = cache_grace(s, object);
	if (!grace)
		kmem_cache_free_nolock(s, object);
	else if (cache_retire(s, object, call) && !push_retired(s, object))
		rcu_any_link(grace, object, offset);
	os_report_kept_nowait();
}
