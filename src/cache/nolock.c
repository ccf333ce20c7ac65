/* SPDX-License-Identifier: MIT */
/* Allocating and freeing in any context: nothing here waits, spins, or takes a lock but by try-lock. */
#include <string.h>

#include "cache/cache.h"
#include "os/atomic.h"
#include "os/machine.h"
#include "sheaf/nolock.h"
#include "slab/defer.h"
#include "slab/stat.h"

/* From a slab of this node, or of any. */
static void *take_try(struct kmem_cache *s)
{
	unsigned int node = os_node();

	for (uint32_t i = 0; i < os.nr_nodes; i++) {
		void *object;

		if (slab_take_try(&s->sheaf.slab, (node + i) % os.nr_nodes, &object)) {
			stat_add(&s->sheaf.slab, STAT_alloc_slowpath, 1);
			return object;
		}
	}
	return NULL;
}

SHEAF_PUBLIC void *kmem_cache_alloc_nolock(struct kmem_cache *s, gfp_t gfp)
{
	void *object = NULL;

	if (cache_was_destroyed(s, "kmem_cache_alloc_nolock"))
		return NULL;
	gfp = cache_check_gfp(s, gfp);
	if (s->sheaf.barns)
		object = nolock_alloc(&s->sheaf);
	if (!object)
		object = take_try(s);
	if (object && (gfp & __GFP_ZERO))
		memset(object, 0, s->sheaf.slab.object_size);
	stat_add(&s->sheaf.slab, STAT_nolock_fail, object == NULL);
	return object;
}

SHEAF_PUBLIC void kmem_cache_free_nolock(struct kmem_cache *s, void *object)
{
	if (!object || cache_was_destroyed(s, "kmem_cache_free_nolock"))
		return;
	if (s->sheaf.barns && page_is_ours(object) && page_node(object) == os_node() &&
	    nolock_free(&s->sheaf, object))
		return;
	stat_add(&s->sheaf.slab, STAT_free_slowpath, 1);
	nolock_give(&s->sheaf, object, "kmem_cache_free_nolock");
}
