/* SPDX-License-Identifier: MIT */
/* Shards and blocks; see sheaf.h and barn.h. */
#include "percpu/barn/barn.h"

#include "os/assert.h"
#include "os/atomic.h"
#include "page/pool.h"
#include "percpu/barn/budget.h"
#include "percpu/barn/cells.h"

static struct cells shard_of(struct sheaf_cache *cache, unsigned int cpu, bool of_other)
{
	struct slot *slot = slot_of_row(cache->at.handle, cpu);

	return (struct cells){slot->cells, barn_shard_cells(), os_load_relaxed(&cache->shard_full),
			      &slot->top, of_other};
}

static size_t barn_size(unsigned int node)
{
	return sizeof(struct barn) + (os.node[node].n + 63u) / 64 * sizeof(uint64_t);
}

/* The node's barn; created if it is missing and `make` is set. */
static struct barn *barn_of(struct sheaf_cache *cache, unsigned int node, bool make)
{
	struct barn *barn = os_load_acquire(&cache->barns[node]), *fresh;

	if (barn || !make)
		return barn;
	fresh = pool_alloc(barn_size(node));
	if (!fresh || os_cmpxchg(&cache->barns[node], &barn, fresh))
		return fresh;
	pool_free(fresh, barn_size(node));
	return barn;
}

static struct barn_block *barn_block_of(struct barn *barn, unsigned int i, bool make)
{
	struct barn_block *block = os_load_acquire(&barn->blocks[i]), *fresh;

	if (block || !make)
		return block;
	fresh = pool_alloc(sizeof(*fresh));
	if (!fresh || os_cmpxchg(&barn->blocks[i], &block, fresh))
		return fresh;
	pool_free(fresh, sizeof(*fresh));
	return block;
}

/* From now on other CPUs look into this CPU's shard (BARN-N1), and its budget counts. */
static void use(struct sheaf_cache *cache, struct barn *barn, unsigned int cpu)
{
	unsigned int place = os.place_of[cpu].place;
	uint64_t *used = &barn->used[place / 64], bit = UINT64_C(1) << place % 64;

	if ((os_load_relaxed(used) & bit) || (os_fetch_or(used, bit) & bit))
		return;
	os_fetch_add(&barn->nr_used, 1);
	barn_set_limits(cache);
	/* Other processes see the limits. */
	if (cache->slab.counted)
		os_store_release(&cache->flow_changed, 1);
}

bool barn_use(struct sheaf_cache *cache, unsigned int cpu)
{
	struct barn *barn = barn_of(cache, os.node_of_row[cpu], true);

	if (barn)
		use(cache, barn, cpu);
	return barn;
}

struct sheaf *barn_search_shard(const struct barn_search *s, unsigned int cpu)
{
	const struct cells shard = shard_of(s->cache, cpu, cpu != s->cpu);

	return cells_search(s, &shard);
}

struct sheaf *barn_search_part(const struct barn_search *s, unsigned int part)
{
	unsigned int first = barn_part_at(part), n = barn_part_at(part + 1) - first, at = first,
		     limit = os_load_relaxed(&s->cache->barn_full);
	struct sheaf *sheaf = NULL;

	for (unsigned int i = 0; !sheaf && i < BARN_BLOCKS; i++, at += BARN_BLOCK_CELLS) {
		struct barn_block *block = barn_block_of(s->barn, i, false);
		uint16_t top = 0;

		if (!block)
			break;
		const struct cells cells = {block->cells + first, n, limit > at ? limit - at : 0,
					    &top, false};

		sheaf = cells_search(s, &cells);
	}
	return sheaf;
}

/* Blocks exist up to the limit of cells that may be full. */
static struct sheaf *search_blocks(const struct barn_search *s)
{
	unsigned int left = os_load_relaxed(&s->cache->barn_full);
	struct sheaf *sheaf = NULL;

	for (unsigned int i = 0; !sheaf && i < BARN_BLOCKS; i++) {
		struct barn_block *block = barn_block_of(s->barn, i, s->put && left);

		if (!block)
			break;
		const struct cells cells = {block->cells, BARN_BLOCK_CELLS, left, &block->top,
					    false};

		sheaf = cells_search(s, &cells);
		left -= left < BARN_BLOCK_CELLS ? left : BARN_BLOCK_CELLS;
	}
	return sheaf;
}

/* A mark that is set during a put hides the sheaf from most searches until the next put: BARN-N2
 * says why that is allowed. */
static void forget_found_none(struct barn *barn, enum barn_wanted wanted)
{
	if (os_load_relaxed(&barn->found_none[wanted]))
		os_store_relaxed(&barn->found_none[wanted], 0);
}

/*
 * No room and no full sheaf: the search that ended last is right. A search for room may set its
 * mark after the last full sheaf was taken, and then no other one clears it.
 */
static void remember_found_none(struct barn *barn, enum barn_wanted wanted)
{
	os_store_relaxed(&barn->found_none[wanted], 1);
	if (wanted == BARN_FULL_SHEAF)
		forget_found_none(barn, BARN_ROOM);
	else if (wanted == BARN_ROOM)
		forget_found_none(barn, BARN_FULL_SHEAF);
}

/* Search the blocks and other CPUs' shards. A search for room looks at the blocks first: a CPU's
 * own objects fill them, rather than the shards of its neighbours. */
static struct sheaf *search_all(const struct barn_search *s, enum barn_wanted wanted)
{
	struct sheaf *sheaf = s->put ? steal_part(s) : steal_near(s);
	bool all = false;

	if (!sheaf)
		sheaf = search_blocks(s);
	if (!sheaf && s->put)
		sheaf = steal_near(s);
	if (!sheaf)
		sheaf = steal_far(s, &all);
	if (!sheaf && all && !(s->found && s->found->saw))
		remember_found_none(s->barn, wanted);
	return sheaf;
}

/* Search all but this CPU's own shard. */
static struct sheaf *search_others(const struct barn_search *s, bool near)
{
	bool none = os_load_relaxed(&s->barn->found_none[s->full]);
	struct sheaf *sheaf = steal_again(s, near && !none);

	if (!sheaf && !none)
		sheaf = search_all(s, s->full);
	if (s->found->saw)
		cells_mark_seen(s->found->saw, s->full);
	return sheaf;
}

static uint16_t *slot_hint(struct sheaf_cache *cache, unsigned int cpu, bool full)
{
	return &slot_of_row(cache->at.handle, cpu)->steal[full];
}

static struct sheaf *begin_sheaf(struct sheaf_cache *cache, unsigned int node, bool full,
				 uint16_t *place, struct barn_cell *cell)
{
	unsigned int cpu = os_cpu();
	bool here = os.node_of_row[cpu] == node;
	const struct barn_search s = {.cache = cache,
				      .barn = barn_of(cache, node, false),
				      .cpu = cpu,
				      .node = node,
				      .full = full,
				      .next = place ? place : slot_hint(cache, cpu, full),
				      .found = cell};
	struct sheaf *sheaf;

	*cell = (struct barn_cell){.cpu = cpu, .node = node};
	sheaf = here ? barn_search_shard(&s, cpu) : NULL;
	cell->far = !sheaf;
	if (!sheaf && here && full)
		barn_note_imbalance(cache, cpu, false);
	if (sheaf || !s.barn)
		return sheaf;
	if (here)
		use(cache, s.barn, cpu);
	return search_others(&s, here);
}

struct sheaf *barn_begin_full(struct sheaf_cache *cache, unsigned int node, struct barn_cell *cell)
{
	return begin_sheaf(cache, node, true, NULL, cell);
}

struct sheaf *barn_begin_empty(struct sheaf_cache *cache, unsigned int node, uint16_t *place,
			       struct barn_cell *cell)
{
	return begin_sheaf(cache, node, false, place, cell);
}

bool barn_node_is_out(struct sheaf_cache *cache)
{
	struct barn *barn = barn_of(cache, os_node(), false);
	uint8_t left = barn ? os_load_relaxed(&barn->node_out) : 0;

	/* One thread in this many tries the node again; the others go on meanwhile. */
	if (left)
		os_store_relaxed(&barn->node_out, left > 1 ? left - 1 : BARN_NODE_OUT);
	return left > 1;
}

void barn_set_node_out(struct sheaf_cache *cache, bool out)
{
	struct barn *barn = barn_of(cache, os_node(), false);

	if (barn && !os_load_relaxed(&barn->node_out) == out)
		os_store_relaxed(&barn->node_out, out ? BARN_NODE_OUT : 0);
}

/* Put an empty sheaf into the shard of the CPU on which we run. Allocates nothing: signal handlers
 * call it. */
static bool put_empty_near(struct sheaf_cache *cache, struct sheaf *sheaf)
{
	unsigned int cpu = os_cpu();
	const struct cells shard = shard_of(cache, cpu, false);
	struct barn *barn = barn_of(cache, os.node_of_row[cpu], false);

	if (!barn)
		return false;
	use(cache, barn, cpu);
	return cells_put_empty(&shard, sheaf, os_load_relaxed(&cache->one_way));
}

void barn_finish(struct sheaf_cache *cache, struct barn_cell *cell, struct sheaf *sheaf)
{
	bool full = sheaf && sheaf->size;
	struct barn *barn;

	/* SHEAF-H3: the cell still shows what was taken out of it. Its sheaf is full, or empty. */
	os_assert((os_peek(cell->at) & BARN_TRANSIT) && (!full || sheaf->size == sheaf->capacity));
	if (cell->far && sheaf && !full && put_empty_near(cache, sheaf))
		sheaf = NULL;
	if (cell->far && full && os.node_of_row[cell->cpu] == cell->node &&
	    barn_sheaf(os_load_relaxed(cell->at)) != sheaf)
		barn_note_imbalance(cache, cell->cpu, true);
	os_store_release(cell->at, (uintptr_t)sheaf | (full ? BARN_FULL : 0));
	barn = barn_of(cache, cell->node, false);
	if (sheaf)
		forget_found_none(barn, full);
	if (cell->may_be_full && !full)
		forget_found_none(barn, BARN_ROOM);
}

bool barn_put_full(struct sheaf_cache *cache, unsigned int node, struct sheaf *sheaf,
		   struct sheaf **displaced)
{
	unsigned int cpu = os_cpu();
	bool here = os.node_of_row[cpu] == node;
	uint16_t place = sheaf->place;
	const struct barn_search s = {.cache = cache,
				      .barn = barn_of(cache, node, here),
				      .cpu = cpu,
				      .node = node,
				      .full = true,
				      .next = here ? slot_hint(cache, cpu, false) : &place,
				      .put = sheaf,
				      .displaced = displaced};
	bool done = false;

	*displaced = NULL;
	if (!s.barn || sheaf_budget_is_over())
		return false;
	if (here) {
		use(cache, s.barn, cpu);
		done = barn_search_shard(&s, cpu);
		if (!done)
			barn_note_imbalance(cache, cpu, true);
	}
	if (!done && !os_load_relaxed(&s.barn->found_none[BARN_ROOM]))
		done = search_all(&s, BARN_ROOM);
	if (done)
		forget_found_none(s.barn, BARN_FULL_SHEAF);
	return done;
}

bool barn_put_empty(struct sheaf_cache *cache, struct sheaf *sheaf)
{
	struct barn *barn = barn_of(cache, os_node(), true);
	const struct barn_search s = {.cache = cache, .barn = barn, .put = sheaf};

	if (!barn || sheaf_budget_is_over() || !(put_empty_near(cache, sheaf) || search_blocks(&s)))
		return false;
	forget_found_none(barn, BARN_EMPTY_SHEAF);
	return true;
}

bool barn_has_room(struct sheaf_cache *cache)
{
	unsigned int cpu = os_cpu();
	const struct barn *barn = barn_of(cache, os.node_of_row[cpu], false);
	const struct cells shard = shard_of(cache, cpu, false);

	if (sheaf_budget_is_over())
		return false;
	return !barn || !os_load_relaxed(&barn->found_none[BARN_ROOM]) || cells_have_room(&shard);
}

void barn_forget_no_room(struct sheaf_cache *cache)
{
	for (uint32_t node = 0; node < os.nr_nodes; node++) {
		struct barn *barn = barn_of(cache, node, false);

		if (barn)
			forget_found_none(barn, BARN_ROOM);
	}
}

bool barn_init(struct sheaf_cache *cache)
{
	cache->barns = pool_alloc(os.nr_nodes * sizeof(*cache->barns));
	/* If there is only one node, it will certainly be used. */
	if (cache->barns && (os.nr_nodes > 1 || barn_of(cache, 0, true)))
		return true;
	barn_exit(cache);
	return false;
}

void barn_exit(struct sheaf_cache *cache)
{
	for (uint32_t node = 0; cache->barns && node < os.nr_nodes; node++) {
		struct barn *barn = cache->barns[node];

		for (unsigned int i = 0; barn && i < BARN_BLOCKS; i++)
			pool_free(barn->blocks[i], sizeof(struct barn_block));
		pool_free(barn, barn_size(node));
	}
	pool_free(cache->barns, os.nr_nodes * sizeof(*cache->barns));
	cache->barns = NULL;
}
