/* SPDX-License-Identifier: MIT */
/*
 * Objects that src/debug/ watches: guarded ones, and those of debug caches.
 *
 * Guarded objects (debug/guard.h) are in no slab, so slow.c, kfree_rcu.c and block.c pass them to
 * these functions. In a debug cache, each object is checked after it has come out of its slab, and
 * before it returns. The thread holds no lock and has nothing in hand during a check, because the
 * check may report.
 *
 * Locks: none. Callers: the slow paths of src/cache/.
 */
#include <sheaf/debug.h>

#include "cache/account.h"
#include "cache/paths.h"
#include "cache/reclaim.h"
#include "percpu/percpu.h"
#include "slab/stat.h"

void *cache_alloc_guarded(struct kmem_cache *s)
{
	bool profiled = profile_is_on() && !cache_is_guarded(s);
	void *object = NULL;

	/* Samples may have just been switched off. */
	if (profiled || s->flags & (DEBUG_GUARD | DEBUG_SAMPLE))
		object = guard_alloc(&s->sheaf.slab, profiled ? account_group(s) : NULL);
	stat_add(&s->sheaf.slab, STAT_alloc_slowpath, object != NULL);
	return object;
}

void *cache_take_sample(struct kmem_cache *s, bool popped)
{
	uint32_t pops = sample_pops(s->sheaf.slab.object_size);
	/* If no countdown ended, main was empty, and this object is the first that is counted. */
	bool taken = (popped && section_arm(&s->sheaf.at, pops)) || pops == 1;

	return taken ? cache_alloc_guarded(s) : NULL;
}

void cache_sample_among(struct kmem_cache *s, size_t n, void **objects)
{
	size_t size = s->sheaf.slab.object_size;

	/* Objects of checked caches are taken one by one. */
	if (!cache_is_sampled(s) || cache_is_checked(s))
		return;
	for (size_t i = sample_pops(size); i <= n; i += sample_pops(size)) {
		void *sample = cache_alloc_guarded(s);

		if (sample) {
			cache_free_all(s, 1, &objects[i - 1]);
			objects[i - 1] = sample;
		}
	}
	cache_leave(); /* a round may be due now */
}

struct kmem_cache *cache_of_guarded(const void *object)
{
	struct slab_cache *slab;
	size_t size;

	return guard_is_ours(object) && guard_find(object, &slab, &size) ? cache_of_slab(slab)
									 : NULL;
}

void cache_free_guarded(struct kmem_cache *s, void *object, bool waited, const char *call)
{
	struct kmem_cache *holder = cache_of_guarded(object);
	uint32_t *at = groups_exist() ? guard_owner(object) : NULL, number = 0;

	if (at)
		number = os_load_relaxed(at);
	tsan_release(object);
	if (!guard_free(s ? &s->sheaf.slab : NULL, object, waited,
			holder && holder->flags & CACHE_ZERO_FREE, call) ||
	    !holder)
		return;
	stat_add(&holder->sheaf.slab, STAT_free_slowpath, 1);
	if (number)
		stock_uncharge(number, holder->sheaf.slab.size);
}

unsigned int cache_free_all_guarded(struct kmem_cache *s, void **objects, unsigned int n,
				    const char *call)
{
	unsigned int left = 0;

	for (unsigned int i = 0; i < n; i++)
		if (guard_is_ours(objects[i]))
			cache_free_guarded(s, objects[i], false, call);
		else
			objects[left++] = objects[i];
	return left;
}

SHEAF_PUBLIC bool sheaf_explain_fault(const void *address, const void *context)
{
	return guard_explain(address, context);
}

/* --- debug caches ----------------------------------------------------------------------------- */

/* The thread sanitizer sees memset() and memcmp() wherever they are called. */
bool cache_take_checked(struct kmem_cache *s, void *object)
{
	tsan_acquire(object);
	return debug_take(&s->sheaf.slab, object);
}

bool cache_free_checked(struct kmem_cache *s, void *object, bool waited, const char *call)
{
	bool done = debug_free(&s->sheaf.slab, object, waited, call);

	if (!done)
		return false;
	tsan_release(object);
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
		} else if (cache_free_checked(s, objects[i], waited, call)) {
			stat_add(&s->sheaf.slab, STAT_free_slowpath, 1);
			debug_give(&s->sheaf.slab, objects[i], false, call);
		}
	}
}
