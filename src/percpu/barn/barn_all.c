/* SPDX-License-Identifier: MIT */
/* Every cell that a cache has ever used: for drains, fork and statistics. See barn.h. */
#include "os/atomic.h"
#include "os/machine.h"
#include "percpu/barn/barn.h"
#include "percpu/barn/budget.h"
#include "slab/drain_marks.h"

bool barn_next_cells(struct sheaf_cache *cache, struct barn_walk *walk)
{
	for (; walk->node < os.nr_nodes; walk->node++, walk->next = 0) {
		const struct barn *barn = os_load_acquire(&cache->barns[walk->node]);
		unsigned int end = os.node[walk->node].n, place;

		if (!barn)
			continue;
		place = walk->next < end ? barn_next_used(barn, walk->next, end) : walk->next;
		if (place < end) {
			unsigned int cpu = os_cpu_at(walk->node, place);

			walk->cells = slot_of_row(cache->at.handle, cpu)->cells;
			walk->n = barn_shard_cells() + 1;
			walk->next = place + 1;
			return true;
		}
		for (; place < end + BARN_BLOCKS; place++) {
			struct barn_block *block = os_load_acquire(&barn->blocks[place - end]);

			if (!block)
				continue;
			walk->cells = block->cells;
			walk->n = BARN_BLOCK_CELLS;
			walk->next = place + 1;
			return true;
		}
	}
	return false;
}

void barn_wait(struct sheaf_cache *cache, uint32_t phase)
{
	uintptr_t transit = BARN_TRANSIT | (phase ? BARN_PHASE : 0);

	barn_for_each_cell (cache, at)
		while ((os_load_acquire(at) & (BARN_TRANSIT | BARN_PHASE)) == transit)
			os_sleep_briefly();
}

/* Write the count only if it is wrong: the page is shared with the parent. */
static void count_used_again(struct barn *barn, unsigned int node)
{
	uint32_t n = 0;

	for (unsigned int i = 0; i < (os.node[node].n + 63u) / 64; i++)
		n += (uint32_t)__builtin_popcountll(barn->used[i]);
	if (barn->nr_used != n)
		barn->nr_used = n;
}

unsigned int barn_after_fork(struct sheaf_cache *cache)
{
	unsigned int lost = 0;

	barn_for_each_cell (cache, at)
		if (*at & BARN_TRANSIT) {
			*at = 0;
			lost++;
		} else if (*at) {
			/* As for the sheaves in slots: sheaf_after_fork(). */
			slab_mark(&cache->slab, MARK_SHEAVES);
		}
	/*
	 * A thread that was in use() at the fork may have set only the bit, but not yet the limits.
	 */
	for (uint32_t node = 0; node < os.nr_nodes; node++)
		if (cache->barns[node])
			count_used_again(cache->barns[node], node);
	barn_set_limits(cache);
	return lost;
}

struct sheaf *barn_take_all(struct sheaf_cache *cache)
{
	struct sheaf *list = NULL, *sheaf;

	barn_for_each_cell (cache, at) {
		uintptr_t cell = os_load_relaxed(at);

		/* The cell is in transit, and its sheaf will be back: stop is set. */
		while ((cell & BARN_TRANSIT) || (cell && !os_cmpxchg(at, &cell, 0))) {
			os_sleep_briefly();
			cell = os_load_relaxed(at);
		}
		if (!cell)
			continue;
		sheaf = barn_sheaf(cell);
		sheaf->next = list;
		list = sheaf;
	}
	barn_forget_no_room(cache);
	return list;
}
