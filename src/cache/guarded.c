/* SPDX-License-Identifier: MIT */
/*
 * Guarded objects of caches (debug/guard.h). They are in no slab, so slow.c, checked.c, kfree_rcu.c
 * and block.c pass them to these functions.
 *
 * Locks: none. Callers: the slow paths of src/cache/.
 */
#include <sheaf/debug.h>

#include "cache/account.h"
#include "debug/guard.h"
#include "os/machine.h"
#include "percpu/rows.h"
#include "slab/stat.h"

void *cache_alloc_guarded(struct kmem_cache *s)
{
	void *object = guard_alloc(&s->sheaf.slab);

	stat_add(&s->sheaf.slab, STAT_alloc_slowpath, object != NULL);
	return object;
}

/* The first pop on a CPU finds no sheaf that counts. */
static bool is_counting(struct kmem_cache *s)
{
	return sheaf_capacity(&s->sheaf) &&
	       os_load_relaxed(&slot_of_row(s->sheaf.at.handle, os_row())->main) !=
		       &sheaf_bootstrap;
}

void *cache_take_sample(struct kmem_cache *s, bool popped)
{
	size_t size = s->sheaf.slab.object_size;
	bool taken;

	if (popped && is_counting(s))
		taken = section_arm(&s->sheaf.at, sample_pops(size)) && sample_due_is_taken(size);
	else
		taken = sample_is_taken(size);
	return taken ? cache_alloc_guarded(s) : NULL;
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
	tsan_given(object);
	if (!guard_free(s ? &s->sheaf.slab : NULL, object, waited, call) || !holder)
		return;
	stat_add(&holder->sheaf.slab, STAT_free_slowpath, 1);
	if (number)
		stock_uncharge(number, holder->sheaf.slab.size);
}

unsigned int cache_free_all_guarded(struct kmem_cache *s, void **objects, unsigned int n,
				    bool waited, const char *call)
{
	unsigned int left = 0;

	for (unsigned int i = 0; i < n; i++)
		if (guard_is_ours(objects[i]))
			cache_free_guarded(s, objects[i], waited, call);
		else
			objects[left++] = objects[i];
	return left;
}

SHEAF_PUBLIC bool sheaf_explain_fault(const void *address, const void *context)
{
	return guard_explain(address, context);
}
