/* SPDX-License-Identifier: MIT */
/* Sheaves without waiting; see percpu.h. */
#include "percpu/percpu.h"

#include "os/machine.h"
#include "os/report/report.h"
#include "percpu/barn/barn.h"
#include "percpu/in_hand.h"
#include "percpu/rows.h"
#include "percpu/stat.h"
#include "slab/drain_marks.h"

/*
 * Leave a sheaf from the slot, or none, in the cell, which is still in transit. A full or an empty
 * sheaf stays as it is. One that is partly filled, because another thread interfered, is left
 * without its objects.
 */
static void leave(struct sheaf_cache *cache, struct barn_cell *cell, struct sheaf *old)
{
	uint32_t size = old ? old->size : 0;

	if (size && (size < old->capacity || !cell->may_be_full)) {
		stat_add(&cache->slab, STAT_sheaf_flush, size);
		sheaf_set_size(old, 0);
		while (size)
			slab_give_nolock(&cache->slab, old->objects[--size], EARLIER_FREE);
	}
	barn_finish(cache, cell, old);
}

static void count_exchange(struct sheaf_cache *cache, bool full, const struct sheaf *left)
{
	bool exchanged = left && full == !left->size;

	if (full)
		stat_add(&cache->slab, exchanged ? STAT_exchange_empty : STAT_barn_get_only, 1);
	else
		stat_add(&cache->slab, exchanged ? STAT_exchange_full : STAT_replace_full_only, 1);
	stat_add(&cache->slab, STAT_barn_get_empty, !full && !exchanged);
}

/* Move a full (an empty) sheaf from the barn into the slot, as main if that is empty (full). */
static bool install(struct sheaf_cache *cache, bool full)
{
	struct barn_cell cell;
	struct sheaf *sheaf, *old = NULL;

	/* Done before anything is in hand. */
	if (!rows_open_here(cache->at.handle))
		return false;
	sheaf = full ? barn_begin_full(cache, os_node(), &cell)
		     : barn_begin_empty(cache, os_node(), NULL, &cell);
	if (!sheaf)
		return false;
	sheaf_arm(cache, sheaf);
	slab_mark(&cache->slab, MARK_SHEAVES);
	if (in_hand_sees_drain(cache) || !(full || sheaf_fits(cache, sheaf)) ||
	    !section_replace_spare(&cache->at, sheaf, &old)) {
		barn_finish(cache, &cell, sheaf);
		return false;
	}
	if (full)
		section_swap_empty(&cache->at);
	else
		section_swap_full(&cache->at);
	if (old == &sheaf_bootstrap)
		old = NULL;
	if (old) {
		sheaf_harvest(cache, old);
		if (!full) {
			sheaf_check_newest(cache, old, EARLIER_FREE);
			os_store_relaxed(&old->filled_by, cell.cpu + 1);
		}
	}
	count_exchange(cache, full, old);
	leave(cache, &cell, old);
	return true;
}

void *nolock_alloc(struct sheaf_cache *cache)
{
	void *object = section_pop(&cache->at);

	if (!object && section_swap_empty(&cache->at))
		object = section_pop(&cache->at);
	/* A first search only marks what other CPUs may need. */
	if (!object && os_registered() && (install(cache, true) || install(cache, true)))
		object = section_pop(&cache->at);
	return object;
}

bool nolock_free(struct sheaf_cache *cache, void *object)
{
	bool done;

	if (section_push(&cache->at, object) ||
	    (section_swap_full(&cache->at) && section_push(&cache->at, object)))
		return true;
	if (!os_registered() || !install(cache, false))
		return false;
	done = section_push(&cache->at, object);
	/* The sheaf that was exchanged has been checked. */
	os_report_kept_nowait();
	return done;
}

void sheaf_give_deferred(struct sheaf_cache *cache)
{
	uint32_t *in_hand;

	if (!slab_has_deferred(&cache->slab))
		return;
	in_hand = in_hand_begin(cache);
	slab_mark(&cache->slab, MARK_SHEAVES);
	slab_list_deferred(&cache->slab);
	in_hand_end(in_hand);
}
