/* SPDX-License-Identifier: MIT */
/* Allocating and freeing in any context: nothing here waits or spins, or takes a lock except by
 * try-lock. */

#include "cache/account.h"
#include "cache/hardened.h"
#include "percpu/percpu.h"
#include "percpu/stat.h"

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
