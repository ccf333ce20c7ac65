/* SPDX-License-Identifier: MIT */
/* Cells, shards and blocks; see sheaf.h and barn.h. */
#include "sheaf/barn.h"

#include <string.h>

#include "os/atomic.h"
#include "os/machine.h"
#include "page/pool.h"

#define STEAL_MAX 8 /* other shards looked at before giving up */
#define BLOCK	  (BARN_BLOCK_CELLS * sizeof(uintptr_t))

/* Put a cell in transit if it still holds what was read; the sheaf, or NULL. */
static struct sheaf *begin(struct sheaf_cache *cache, uintptr_t *at, uintptr_t cell,
			   struct barn_cell *found)
{
	uintptr_t phase = os_load_relaxed(&cache->phase) & 1 ? BARN_PHASE : 0;

	if (!os_cmpxchg(at, &cell, (cell & ~BARN_TAGS) | BARN_TRANSIT | phase))
		return NULL;
	found->at = at;
	return barn_sheaf(cell);
}

/*
 * An array of cells, of which `limit` from below may be full. `top` is where empty ones end and
 * full ones begin, if nobody else came between: each exchange moves it by one, like a stack's
 * pointer, so that the first cell looked at is the right one. Only a hint.
 */
struct cells {
	uintptr_t *at;
	unsigned int n, limit;
	uint32_t *top;
};

static struct sheaf *search(struct sheaf_cache *cache, const struct cells *cells, bool full,
			    struct barn_cell *found)
{
	unsigned int n = cells->n, top = os_load_relaxed(cells->top);

	for (unsigned int k = 0; k < n; k++) {
		unsigned int i = full ? top + k : top + n - 1 - k;
		uintptr_t cell;
		struct sheaf *sheaf;

		i = i < n ? i : i - n;
		cell = os_load_relaxed(&cells->at[i]);
		if (!cell || (cell & BARN_TRANSIT) || full != (bool)(cell & BARN_FULL))
			continue;
		sheaf = begin(cache, &cells->at[i], cell, found);
		if (!sheaf)
			continue;
		found->may_be_full = i < cells->limit;
		os_store_relaxed(cells->top, full ? i + 1 : i);
		return sheaf;
	}
	return NULL;
}

static struct sheaf *search_shard(struct sheaf_cache *cache, unsigned int row, bool full,
				  struct barn_cell *found)
{
	struct slot *slot = slot_of_row(cache->at.handle, row);
	const struct cells shard = {slot->cells, SLOT_CELLS, os_load_relaxed(&cache->shard_full),
				    &slot->top};

	return search(cache, &shard, full, found);
}

static bool cells_put(uintptr_t *cell, uintptr_t value)
{
	uintptr_t none = 0;

	return !os_load_relaxed(cell) && os_cmpxchg(cell, &none, value);
}

static bool cells_put_full(uintptr_t *cells, unsigned int limit, struct sheaf *sheaf)
{
	for (unsigned int i = 0; i < limit; i++)
		if (cells_put(&cells[i], (uintptr_t)sheaf | BARN_FULL))
			return true;
	return false;
}

static bool cells_put_empty(uintptr_t *cells, unsigned int n, unsigned int limit,
			    struct sheaf *sheaf)
{
	for (unsigned int i = n; i > n - limit; i--)
		if (cells_put(&cells[i - 1], (uintptr_t)sheaf))
			return true;
	return false;
}

/* The node's block of this number, made if it is missing and wanted. */
static uintptr_t *block_of(struct sheaf_cache *cache, unsigned int node, unsigned int i, bool make)
{
	struct barn *barn = os_load_acquire(&cache->barns[node]), *fresh;
	uintptr_t *block = NULL, *none = NULL;

	if (!barn && make) {
		fresh = pool_alloc(sizeof(*fresh));
		if (!fresh)
			return NULL;
		if (os_cmpxchg(&cache->barns[node], &barn, fresh))
			barn = fresh;
		else
			pool_free(fresh, sizeof(*fresh));
	}
	if (barn)
		block = os_load_acquire(&barn->blocks[i]);
	if (!barn || block || !make)
		return block;
	block = pool_alloc(BLOCK);
	if (block && !os_cmpxchg(&barn->blocks[i], &none, block)) {
		pool_free(block, BLOCK);
		block = none;
	}
	return block;
}

/* In shards of this node's other CPUs: those behind the same last-level cache, or the rest. */
static struct sheaf *steal(struct sheaf_cache *cache, unsigned int row, bool near, bool full,
			   struct barn_cell *found)
{
	struct sheaf *sheaf = NULL;
	unsigned int looked = 0;

	for (uint32_t i = 1; !sheaf && looked < STEAL_MAX && i < os.nr_rows; i++) {
		unsigned int other = (row + i) % os.nr_rows;

		if (os.node_of_row[other] != os.node_of_row[row] ||
		    (os.llc_of_cpu[other] == os.llc_of_cpu[row]) != near)
			continue;
		looked++;
		sheaf = search_shard(cache, other, full, found);
	}
	return sheaf;
}

static struct sheaf *search_blocks(struct sheaf_cache *cache, unsigned int node, bool full,
				   struct barn_cell *found)
{
	unsigned int left = os_load_relaxed(&cache->barn_full);
	struct sheaf *sheaf = NULL;

	for (unsigned int i = 0; !sheaf && i < BARN_BLOCKS; i++) {
		uintptr_t *at = block_of(cache, node, i, false);

		if (!at)
			break;
		const struct cells block = {at, BARN_BLOCK_CELLS, left, &cache->barns[node]->top};

		sheaf = search(cache, &block, full, found);
		left -= left < BARN_BLOCK_CELLS ? left : BARN_BLOCK_CELLS;
	}
	return sheaf;
}

/* Beyond this CPU's own shard. */
static struct sheaf *search_far(struct sheaf_cache *cache, unsigned int row, bool full,
				struct barn_cell *found)
{
	struct sheaf *sheaf = search_blocks(cache, os.node_of_row[row], full, found);

	if (!sheaf)
		sheaf = steal(cache, row, true, full, found);
	if (!sheaf)
		sheaf = steal(cache, row, false, full, found);
	return sheaf;
}

/* A mark set beside a put hides its sheaf from others until the next put: a refill too early. */
static void no_longer_dry(struct sheaf_cache *cache)
{
	if (os_load_relaxed(&cache->dry))
		os_store_relaxed(&cache->dry, 0);
}

struct sheaf *barn_begin_full(struct sheaf_cache *cache, struct barn_cell *cell)
{
	unsigned int row = os_row();
	uint64_t node = UINT64_C(1) << os.node_of_row[row];
	struct sheaf *sheaf = search_shard(cache, row, true, cell);

	cell->far = !sheaf;
	cell->row = row;
	if (sheaf || (os_load_relaxed(&cache->dry) & node))
		return sheaf;
	sheaf = search_far(cache, row, true, cell);
	if (!sheaf)
		os_fetch_or(&cache->dry, node);
	return sheaf;
}

struct sheaf *barn_begin_empty(struct sheaf_cache *cache, struct barn_cell *cell)
{
	unsigned int row = os_row();
	struct sheaf *sheaf = search_shard(cache, row, false, cell);

	cell->far = !sheaf;
	cell->row = row;
	return sheaf ? sheaf : search_far(cache, row, false, cell);
}

/* Into this CPU's own shard. */
static bool put_near(struct sheaf_cache *cache, struct sheaf *sheaf, bool full)
{
	uintptr_t *cells = slot_of_row(cache->at.handle, os_row())->cells;
	uint32_t limit = os_load_relaxed(&cache->shard_full);

	return full ? cells_put_full(cells, limit, sheaf)
		    : cells_put_empty(cells, SLOT_CELLS, limit, sheaf);
}

void barn_finish(struct sheaf_cache *cache, struct barn_cell *cell, struct sheaf *sheaf)
{
	bool full = sheaf && sheaf->size;

	if (cell->far && sheaf && !full && put_near(cache, sheaf, full))
		sheaf = NULL;
	os_store_release(cell->at, (uintptr_t)sheaf | (sheaf && full ? BARN_FULL : 0));
	if (full)
		no_longer_dry(cache);
}

void barn_put_back(struct barn_cell *cell, struct sheaf *full)
{
	os_store_release(cell->at, (uintptr_t)full | BARN_FULL);
}

static bool put(struct sheaf_cache *cache, struct sheaf *sheaf, bool full)
{
	unsigned int node = os_node();
	uint32_t left = os_load_relaxed(full ? &cache->barn_full : &cache->barn_empty);

	if (put_near(cache, sheaf, full))
		return true;
	for (unsigned int i = 0; left && i < BARN_BLOCKS; i++) {
		unsigned int limit = left < BARN_BLOCK_CELLS ? left : BARN_BLOCK_CELLS;
		uintptr_t *block = block_of(cache, node, i, true);

		if (block && (full ? cells_put_full(block, limit, sheaf)
				   : cells_put_empty(block, BARN_BLOCK_CELLS, limit, sheaf)))
			return true;
		left -= limit;
	}
	return false;
}

bool barn_put_full(struct sheaf_cache *cache, struct sheaf *sheaf)
{
	bool done = put(cache, sheaf, true);

	if (done)
		no_longer_dry(cache);
	return done;
}

bool barn_put_empty(struct sheaf_cache *cache, struct sheaf *sheaf)
{
	return put(cache, sheaf, false);
}

static bool any_free(const uintptr_t *cells, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (!os_load_relaxed(&cells[i]))
			return true;
	return false;
}

bool barn_has_room(struct sheaf_cache *cache)
{
	unsigned int row = os_row(), left = os_load_relaxed(&cache->barn_full);

	if (any_free(slot_of_row(cache->at.handle, row)->cells,
		     os_load_relaxed(&cache->shard_full)))
		return true;
	for (unsigned int i = 0; left && i < BARN_BLOCKS; i++) {
		unsigned int limit = left < BARN_BLOCK_CELLS ? left : BARN_BLOCK_CELLS;
		const uintptr_t *block = block_of(cache, os.node_of_row[row], i, false);

		if (!block || any_free(block, limit))
			return true;
		left -= limit;
	}
	return false;
}

void barn_for_each_cells(struct sheaf_cache *cache,
			 void (*visit)(void *data, uintptr_t *cells, unsigned int n), void *data)
{
	for (uint32_t row = 0; row < os.nr_rows; row++)
		visit(data, slot_of_row(cache->at.handle, row)->cells, SLOT_CELLS);
	for (uint32_t node = 0; node < os.nr_nodes; node++)
		for (unsigned int i = 0; i < BARN_BLOCKS; i++) {
			uintptr_t *block = block_of(cache, node, i, false);

			if (block)
				visit(data, block, BARN_BLOCK_CELLS);
		}
}

static void take_cells(void *data, uintptr_t *cells, unsigned int n)
{
	struct sheaf **list = data, *sheaf;

	for (unsigned int i = 0; i < n; i++) {
		uintptr_t cell = os_load_relaxed(&cells[i]);

		/* In transit now, it will be back: stop is set. */
		while ((cell & BARN_TRANSIT) || (cell && !os_cmpxchg(&cells[i], &cell, 0))) {
			os_yield();
			cell = os_load_relaxed(&cells[i]);
		}
		if (!cell)
			continue;
		sheaf = barn_sheaf(cell);
		sheaf->next = *list;
		*list = sheaf;
	}
}

static void wait_cells(void *data, uintptr_t *cells, unsigned int n)
{
	uintptr_t transit = BARN_TRANSIT | *(const uintptr_t *)data;

	for (unsigned int i = 0; i < n; i++)
		while ((os_load_acquire(&cells[i]) & (BARN_TRANSIT | BARN_PHASE)) == transit)
			os_yield();
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

unsigned int barn_after_fork(struct sheaf_cache *cache)
{
	unsigned int lost = 0;

	barn_for_each_cells(cache, forget_transit, &lost);
	return lost;
}

struct sheaf *barn_take_all(struct sheaf_cache *cache)
{
	struct sheaf *list = NULL;

	barn_for_each_cells(cache, take_cells, &list);
	return list;
}

void barn_exit(struct sheaf_cache *cache)
{
	for (uint32_t node = 0; cache->barns && node < os.nr_nodes; node++) {
		struct barn *barn = cache->barns[node];

		for (unsigned int i = 0; barn && i < BARN_BLOCKS; i++)
			pool_free(barn->blocks[i], BLOCK);
		pool_free(barn, sizeof(*barn));
	}
	pool_free(cache->barns, os.nr_nodes * sizeof(*cache->barns));
	cache->barns = NULL;
}

/* What they are computed from. */
struct limits {
	size_t capacity, objects, bytes;
};

static struct limits read_limits(const struct sheaf_cache *cache)
{
	return (struct limits){sheaf_capacity(cache), os_load_relaxed(&cache->barn_objects),
			       os_load_relaxed(&cache->barn_bytes)};
}

static void compute_limits(struct sheaf_cache *cache, const struct limits *from)
{
	/* Possible CPUs may be many more than there are. */
	size_t cpus = (os_nr_cpus() + os.nr_nodes - 1) / os.nr_nodes;
	size_t most = cpus * SLOT_CELLS + BARN_BLOCKS * BARN_BLOCK_CELLS;
	size_t sheaves = from->objects / from->capacity;
	size_t by_bytes = from->bytes / (from->capacity * cache->slab.size);
	size_t shard, rest;

	sheaves = sheaves < by_bytes ? sheaves : by_bytes;
	sheaves = sheaves < BARN_FLOOR ? BARN_FLOOR : sheaves > most ? most : sheaves;
	/* Three quarters to the shards; none, if there are more CPUs than that. */
	shard = sheaves * 3 / 4 / cpus;
	shard = shard > SLOT_CELLS ? SLOT_CELLS : shard;
	rest = sheaves - shard * cpus;
	os_store_relaxed(&cache->shard_full, (uint32_t)shard);
	os_store_relaxed(&cache->barn_full, (uint32_t)rest);
	os_store_relaxed(&cache->barn_empty, (uint32_t)rest);
}

void barn_set_limits(struct sheaf_cache *cache)
{
	struct limits from, now;

	/* Two at once: who stored last looks at what the other one has changed before. */
	do {
		os_fence();
		from = read_limits(cache);
		compute_limits(cache, &from);
		os_fence();
		now = read_limits(cache);
	} while (memcmp(&from, &now, sizeof(now)) != 0);
}
