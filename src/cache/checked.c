/* SPDX-License-Identifier: MIT */
/*
 * Allocating and freeing in debug caches: src/debug/ checks each object after it has come out of
 * its slab, and before it goes back. The thread holds no lock and has nothing in hand during a
 * check, because the check may report.
 *
 * Locks: none. Callers: the slow paths of src/cache/.
 */
#include "cache/account.h"
#include "cache/reclaim.h"
#include "debug/guard.h"
#include "percpu/nolock.h"
#include "slab/stat.h"

/* The thread sanitizer sees memset() and memcmp() wherever they are called. */
bool cache_take_checked(struct kmem_cache *s, void *object)
{
	tsan_taken(object);
	return debug_take(&s->sheaf.slab, object);
}

bool cache_free_checked(struct kmem_cache *s, void *object, bool waited, const char *call)
{
	bool done = debug_free(&s->sheaf.slab, object, waited, call);

	if (!done)
		return false;
	tsan_given(object);
	if (cache_is_accounted(s))
		account_freed(s, 1, &object);
	return true;
}

/* An object that was written to while it was free is left out, and the next one taken. */
static bool take_checked(struct kmem_cache *s, unsigned int node, enum slab_place place,
			 void **object)
{
	while (slab_take(&s->sheaf.slab, node, place, object, 1) == 1)
		if (cache_take_checked(s, *object))
			return true;
	return false;
}

void *cache_alloc_checked(struct kmem_cache *s, gfp_t flags, unsigned int node,
			  enum slab_place place)
{
	int tries = 0;
	void *object;

	if (debug_fails(&s->sheaf.slab, flags))
		return NULL;
	sheaf_give_deferred(&s->sheaf);
	object = place != SLAB_THIS_NODE && cache_guards_next(s) ? cache_alloc_guarded(s) : NULL;
	if (object)
		return cache_finish(s, object, flags);
	do {
		if (take_checked(s, node, place, &object)) {
			stat_add(&s->sheaf.slab, STAT_alloc_slowpath, 1);
			return cache_finish(s, object, flags);
		}
	} while (reclaim_for(s, flags, tries++));
	return NULL;
}

void cache_give_checked(struct kmem_cache *s, void **objects, size_t n, bool waited,
			const char *call)
{
	sheaf_give_deferred(&s->sheaf);
	for (size_t i = 0; i < n; i++) {
		if (guard_is_ours(objects[i])) {
			cache_free_guarded(s, objects[i], waited, call);
			continue;
		}
		if (!objects[i] || !cache_free_checked(s, objects[i], waited, call))
			continue;
		stat_add(&s->sheaf.slab, STAT_free_slowpath, 1);
		debug_give(&s->sheaf.slab, objects[i], false, call);
	}
}
