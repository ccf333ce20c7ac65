/* SPDX-License-Identifier: MIT */
/* Every cell that a cache has ever used: for drains, fork and statistics. See barn.h. */
#include "os/atomic.h"
#include "os/machine.h"
#include "percpu/barn/barn.h"
#include "percpu/barn/budget.h"
#include "percpu/barn/limits.h"

static void for_each_of_node(struct sheaf_cache *cache, unsigned int node,
			     void (*visit)(void *data, uintptr_t *cells, unsigned int n),
			     void *data)
{
	const struct barn *barn = os_load_acquire(&cache->barns[node]);
	unsigned int place = 0, end = os.node[node].n;

	if (!barn)
		return;
	for (; (place = barn_next_used(barn, place, end)) < end; place++)
		visit(data, slot_of_row(cache->at.handle, os_cpu_at(node, place))->cells,
		      barn_shard_cells());
	for (unsigned int i = 0; i < BARN_BLOCKS; i++) {
		struct barn_block *block = os_load_acquire(&barn->blocks[i]);

		if (block)
			visit(data, block->cells, BARN_BLOCK_CELLS);
	}
}

void barn_for_each_cells(struct sheaf_cache *cache,
			 void (*visit)(void *data, uintptr_t *cells, unsigned int n), void *data)
{
	for (uint32_t node = 0; node < os.nr_nodes; node++)
		for_each_of_node(cache, node, visit, data);
}

struct taking {
	const struct sheaf_cache *cache;
	struct sheaf *list;
};

static void take_cells(void *data, uintptr_t *cells, unsigned int n)
{
	struct taking *taking = data;
	struct sheaf *sheaf;

	for (unsigned int i = 0; i < n; i++) {
		uintptr_t cell = os_load_relaxed(&cells[i]);

		/* The cell is in transit, and its sheaf will be back: stop is set. */
		while ((cell & BARN_TRANSIT) || (cell && !os_cmpxchg(&cells[i], &cell, 0))) {
			os_sleep_briefly();
			cell = os_load_relaxed(&cells[i]);
		}
		if (!cell)
			continue;
		sheaf = barn_sheaf(cell);
		if (cell & BARN_COUNTED)
			sheaf_budget_change(taking->cache, sheaf->capacity, 0);
		sheaf->next = taking->list;
		taking->list = sheaf;
	}
}

static void wait_cells(void *data, uintptr_t *cells, unsigned int n)
{
	uintptr_t transit = BARN_TRANSIT | *(const uintptr_t *)data;

	for (unsigned int i = 0; i < n; i++)
		while ((os_load_acquire(&cells[i]) & (BARN_TRANSIT | BARN_PHASE)) == transit)
			os_sleep_briefly();
}

void barn_wait(struct sheaf_cache *cache, uint32_t phase)
{
	uintptr_t tag = phase ? BARN_PHASE : 0;

	barn_for_each_cells(cache, wait_cells, &tag);
}

static void forget_transit(void *data, uintptr_t *cells, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (cells[i] & BARN_TRANSIT) {
			cells[i] = 0;
			++*(unsigned int *)data;
		}
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

	barn_for_each_cells(cache, forget_transit, &lost);
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
	struct taking taking = {cache, NULL};

	barn_for_each_cells(cache, take_cells, &taking);
	barn_forget_no_room(cache);
	return taking.list;
}
