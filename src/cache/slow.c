/* SPDX-License-Identifier: MIT */
/* Allocates or frees one object when the fast path had none or had no room; unusual gfp flags;
 * requests for a node. */

#include "cache/account.h"
#include "cache/hardened.h"
#include "cache/reclaim.h"
#include "os/probe.h"
#include "percpu/drain.h"
#include "percpu/percpu.h"
#include "percpu/remote.h"
#include "slab/stat.h"

#define GFP_KNOWN FLAGS_OF(GFP_PUBLIC_FLAGS)

gfp_t cache_check_gfp_later(struct kmem_cache *s, gfp_t flags)
{
	if (flags & ~GFP_KNOWN)
		os_misuse_later(
			s->name,
			"kmem_cache_alloc(%s): gfp flag %#x does not exist; ignored. Use the "
			"GFP_ names of <sheaf/slab.h>",
			s->name, flags & ~GFP_KNOWN);
	if ((flags & __GFP_ZERO) && s->sheaf.slab.ctor) {
		os_misuse_later(
			s->name,
			"kmem_cache_alloc(%s): __GFP_ZERO would undo the cache's constructor; "
			"ignored. Clear memory in the constructor",
			s->name);
		flags &= ~__GFP_ZERO;
	}
	return flags & GFP_KNOWN;
}

gfp_t cache_check_gfp(struct kmem_cache *s, gfp_t flags)
{
	flags = cache_check_gfp_later(s, flags);
	cache_leave();
	return flags;
}

void *cache_finish(struct kmem_cache *s, void *object, gfp_t flags)
{
	tsan_acquire(object);
	if (flags & __GFP_ZERO)
		cache_zero(s, object);
	return object;
}

/* Readers may access free objects of a type-stable cache. */
void cache_tell_freed(struct kmem_cache *s, void *object)
{
	if (page_owner(object) != &s->sheaf.slab)
		return;
	if (s->flags & SLAB_TYPESAFE_BY_RCU)
		tsan_release(object);
	else
		tsan_freed(object, s->sheaf.slab.object_size);
}

bool cache_watch_free(struct kmem_cache *s, void *object, const char *call)
{
	if (cache_is_hardened(s) && !hardened_free(s, object, call))
		return false;
	/* Debug caches check later, and then give the charge back themselves: checked.c. */
	if (cache_is_accounted(s) && !cache_is_checked(s))
		account_freed(s, 1, &object);
	if (tsan_is_on())
		cache_tell_freed(s, object);
	return true;
}

bool cache_watch_taken(struct kmem_cache *s, gfp_t flags, size_t n, void **objects)
{
	bool done = true;

	tsan_acquire_all(objects, n);
	if (cache_is_hardened(s)) {
		done = hardened_take_all(s, flags, n, objects);
		cache_leave();
	}
	return done;
}

unsigned int cache_give_up_free(struct kmem_cache *s)
{
	reclaim_quarantine(s, true);
	sheaf_drain(&s->sheaf);
	return slab_count(&s->sheaf.slab);
}

/* What refused the last slab is not recorded. It was the cache's limit, or that of the process, if
 * it refuses the smallest slab now. */
void cache_count_failure(struct kmem_cache *s)
{
	if (reclaim_own_limit_refuses(s))
		os_fetch_add_relaxed(&slab_rest(&s->sheaf.slab)->failures, 1);
	else
		page_count_failure((size_t)1 << s->sheaf.slab.min.order);
}

/* The slabs had no object: reclaim, as far as the flags allow that. */
static OS_COLD bool alloc_again(struct kmem_cache *s, gfp_t flags, unsigned int node,
				enum slab_place place, void **object)
{
	for (int tries = 0; reclaim_for(s, flags, tries); tries++)
		if (slab_take(&s->sheaf.slab, node, place, object, 1) == 1)
			return true;
	return false;
}

void *cache_alloc_on(struct kmem_cache *s, gfp_t flags, unsigned int node, enum slab_place place)
{
	void *object;

	if (cache_is_checked(s))
		return cache_alloc_checked(s, flags, node, place);
	sheaf_give_deferred(&s->sheaf);
	if (slab_take(&s->sheaf.slab, node, place, &object, 1) != 1 &&
	    !alloc_again(s, flags, node, place, &object))
		return NULL;
	stat_add(&s->sheaf.slab, STAT_alloc_slowpath, 1);
	return cache_finish(s, object, flags);
}

static void *alloc_or_count(struct kmem_cache *s, gfp_t flags, unsigned int node,
			    enum slab_place place)
{
	void *object = cache_alloc_on(s, flags, node, place);

	if (!object)
		cache_count_failure(s);
	return object;
}

void *cache_alloc_slow(struct kmem_cache *s, gfp_t flags, bool popped)
{
	void *object;

	probe(alloc_slow, s->name, s->sheaf.slab.object_size, os_node());
	if (flags & ~SHEAF_GFP_PLAIN)
		flags = cache_check_gfp(s, flags);
	reclaim_if_above_soft(flags);
	object = cache_is_sampled(s) && !cache_is_checked(s) ? cache_take_sample(s, popped) : NULL;
	if (!object && sheaf_capacity(&s->sheaf))
		object = sheaf_alloc(&s->sheaf);
	cache_see_flow(s);
	if (object)
		return cache_finish(s, object, flags);
	return alloc_or_count(s, flags, os_node(), SLAB_PREFER_NODE);
}

/* False: it must go to its slab, or it is not ours. */
static bool free_to_sheaf(struct kmem_cache *s, void *object)
{
	if (!sheaf_capacity(&s->sheaf) || !page_is_ours(object) || cache_is_leaked(s))
		return false;
	return page_node(object) == os_node() ? sheaf_free(&s->sheaf, object)
					      : sheaf_free_remote(&s->sheaf, object);
}

void cache_give(struct kmem_cache *s, void **objects, unsigned int n, const char *call)
{
	if (cache_is_checked(s)) {
		cache_give_checked(s, objects, n, false, call);
		return;
	}
	sheaf_give_deferred(&s->sheaf);
	if (os_unlikely(os_load_relaxed(&guard_range.size)))
		n = cache_free_all_guarded(s, objects, n, call);
	stat_add(&s->sheaf.slab, STAT_free_slowpath, n);
	slab_give(&s->sheaf.slab, objects, n, call);
}

void cache_free_slow(struct kmem_cache *s, void *object, const char *call)
{
	if (!object)
		return;
	probe(free_slow, s->name, object, os_node());
	if (free_to_sheaf(s, object))
		cache_see_flow(s);
	else
		cache_give(s, &object, 1, call);
}

bool cache_check_node(struct kmem_cache *s, gfp_t flags, int *node)
{
	if (*node == NUMA_NO_NODE || (*node >= 0 && (uint32_t)*node < os.nr_nodes))
		return true;
	os_report_once(&caches.warned_node,
		       "kmem_cache_alloc_node(%s, node %d): this machine has nodes 0 to %u; "
		       "treated as NUMA_NO_NODE (with __GFP_THISNODE, NULL is returned)",
		       s->name, *node, os.nr_nodes - 1);
	*node = NUMA_NO_NODE;
	return !(flags & __GFP_THISNODE);
}

static void *alloc_node(struct kmem_cache *s, gfp_t flags, int node)
{
	void *object = NULL;

	flags = cache_check_gfp(s, flags);
	if (!cache_check_node(s, flags, &node))
		return NULL;
	if (node == NUMA_NO_NODE)
		return cache_alloc_slow(s, flags, false);
	reclaim_if_above_soft(flags);
	/* Only the fast path counts down to the next sample: this call draws its own number. */
	if (!cache_is_checked(s) && !(flags & __GFP_THISNODE) && cache_guards_next(s))
		object = cache_alloc_guarded(s);
	if (object)
		return cache_finish(s, object, flags);
	if (sheaf_capacity(&s->sheaf) && (unsigned int)node == os_node())
		object = sheaf_alloc(&s->sheaf);
	if (object && page_node(object) == (unsigned int)node)
		return cache_finish(s, object, flags);
	stat_add(&s->sheaf.slab, STAT_alloc_node_mismatch, 1);
	/*
	 * A sheaf may hold another node's object, if memory was short: it stays for other requests.
	 */
	if (object)
		cache_free_slow(s, object, "kmem_cache_alloc_node");
	return alloc_or_count(s, flags, (unsigned int)node,
			      flags & __GFP_THISNODE ? SLAB_THIS_NODE : SLAB_WANT_NODE);
}

void *cache_alloc_node(struct kmem_cache *s, gfp_t flags, int node)
{
	void *object;

	if (cache_is_hardened(s)) {
		flags = cache_check_gfp(s, flags);
		object = hardened_take(s, alloc_node(s, flags & ~__GFP_ZERO, node), flags);
	} else {
		object = alloc_node(s, flags, node);
	}
	cache_leave();
	return object;
}

SHEAF_PUBLIC void *kmem_cache_alloc_node(struct kmem_cache *s, gfp_t flags, int node)
{
	if (cache_is_unusable(s, "kmem_cache_alloc_node"))
		return NULL;
	if (account_charges(s, flags))
		return account_alloc(s, flags, node);
	return cache_alloc_node(s, flags, node);
}
