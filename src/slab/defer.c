/* SPDX-License-Identifier: MIT */
/* Stacks of held slabs that are not yet listed; see drain_marks.h. */
#include "slab/drain_marks.h"

#include "os/assert.h"
#include "os/machine.h"
#include "slab/partial.h"
#include "slab/stat.h"

void slab_defer(struct slab_cache *cache, struct slab *slab)
{
	struct slab_node *node = partial_node_of(cache, slab);
	uint32_t first = os_load_relaxed(&node->deferred);

	os_assert((os_peek(&slab->state) & SLAB_FLAGS) == SLAB_HELD); /* DEFER-E1, DEFER-E2 */
	os_assert(slab_free(cache, os_peek(&slab->state)) > 0);
	do
		slab->next = first;
	while (!os_cmpxchg(&node->deferred, &first, partial_link(node, slab)));
	slab_mark(cache, MARK_DEFERRED);
	stat_add(cache, STAT_nolock_deferred, 1);
}

void slab_list_deferred(struct slab_cache *cache)
{
	struct slab_node *node;

	slab_clear(cache, MARK_DEFERRED);
	slab_for_each_node (cache, node) {
		uint32_t link = os_load_relaxed(&node->deferred);

		if (link != SLAB_NONE)
			link = os_exchange(&node->deferred, SLAB_NONE);
		while (link != SLAB_NONE) {
			struct slab *slab = partial_slab(node, link);

			link = slab->next;
			partial_release(cache, slab, false);
		}
	}
}

void slab_defer_after_fork(struct slab_cache *cache)
{
	const struct slab_node *node;

	slab_for_each_node (cache, node)
		if (node->deferred != SLAB_NONE)
			slab_mark(cache, MARK_DEFERRED);
}
