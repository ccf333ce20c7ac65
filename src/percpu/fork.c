/* SPDX-License-Identifier: MIT */
/*
 * A cache in the child of fork(). Only the thread that forked exists; no drain runs, as fork()
 * holds the drain lock. The sheaves that other threads had in hand are lost; those in the slots
 * are whole. Called for each cache by src/cache/process.c.
 */
#include "os/atomic.h"
#include "percpu/barn/barn.h"
#include "percpu/drain.h"
#include "percpu/rows.h"
#include "slab/drain_marks.h"

static void begin_counts(const struct slot *slot)
{
	struct sheaf *m = os_load_relaxed(&slot->main), *spare = slot_spare(slot);

	if (m != &sheaf_bootstrap)
		sheaf_set_size(m, sheaf_size(m));
	if (spare && spare != &sheaf_bootstrap)
		sheaf_set_size(spare, sheaf_size(spare));
}

void sheaf_begin_counts(struct sheaf_cache *cache)
{
	rows_for_each (cache->at.handle, row)
		begin_counts(slot_of_row(cache->at.handle, row));
}

/* Returns the count, which becomes 0. Written only if it changes: the page is shared with the
 * parent. */
static unsigned int forget(uint32_t *count)
{
	uint32_t lost = os_load_relaxed(count);

	if (lost)
		os_store_relaxed(count, 0);
	return lost;
}

/*
 * The batch that they count on may never return. The child's next retired object finds no sheaf in
 * its slot, and starts another one.
 */
static void queue_in_child(struct sheaf_cache *cache)
{
	struct drain drain = {.cache = cache};

	rows_for_each (cache->at.handle, row)
		taken_take(slot_of_row(cache->at.handle, row), row, &drain.taken, true);
	drain_queue_taken(&drain);
}

unsigned int sheaf_after_fork(struct sheaf_cache *cache)
{
	unsigned int lost = cache->barns ? barn_after_fork(cache) : 0;

	slab_defer_after_fork(&cache->slab);
	rows_for_each (cache->at.handle, row) {
		struct slot *slot = slot_of_row(cache->at.handle, row);

		for (int phase = 0; phase < 2; phase++) {
			lost += forget(&slot->in_hand[phase]);
			/* Taken out but not queued: their objects are leaked. */
			lost += forget(&slot->rcu_in_hand[phase]);
		}
		if (os_load_relaxed(&slot->lock))
			os_store_relaxed(&slot->lock, 0);
		/* The thread that put a sheaf there may not have set it yet (MARKS-F2). */
		if (os_load_relaxed(&slot->pair) != (uintptr_t)&sheaf_bootstrap)
			slab_mark(&cache->slab, MARK_SHEAVES);
	}
	if (cache->slab.counted)
		sheaf_begin_counts(cache);
	if (cache->rcu)
		queue_in_child(cache);
	return lost;
}
