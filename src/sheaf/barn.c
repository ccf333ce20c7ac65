/* SPDX-License-Identifier: MIT */
/* Cells, shards and blocks; see sheaf.h and barn.h. */
#include "sheaf/barn.h"

#include "os/atomic.h"
#include "os/machine.h"
#include "page/pool.h"

#define FULL	  ((uintptr_t)1) /* a cell's tag */
#define STEAL_MAX 8		 /* other shards looked at before giving up */
#define BLOCK	  (BARN_BLOCK_CELLS * sizeof(uintptr_t))

/* Full ones lie below: the lowest is taken first, and the lowest gap is filled. */
static struct sheaf *cells_take_full(uintptr_t *cells, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		uintptr_t cell = os_load_relaxed(&cells[i]);

		if ((cell & FULL) && os_cmpxchg(&cells[i], &cell, 0))
			return barn_cell_sheaf(cell);
	}
	return NULL;
}

static struct sheaf *cells_take_empty(uintptr_t *cells, unsigned int n)
{
	while (n-- > 0) {
		uintptr_t cell = os_load_relaxed(&cells[n]);

		if (cell && !(cell & FULL) && os_cmpxchg(&cells[n], &cell, 0))
			return barn_cell_sheaf(cell);
	}
	return NULL;
}

static bool cells_put(uintptr_t *cell, uintptr_t value)
{
	uintptr_t none = 0;

	return !os_load_relaxed(cell) && os_cmpxchg(cell, &none, value);
}

static bool cells_put_full(uintptr_t *cells, unsigned int limit, struct sheaf *sheaf)
{
	for (unsigned int i = 0; i < limit; i++)
		if (cells_put(&cells[i], (uintptr_t)sheaf | FULL))
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

/* From shards of this node's other CPUs: those behind the same last-level cache, or the rest. */
static struct sheaf *steal(struct sheaf_cache *cache, unsigned int row, bool near,
			   struct sheaf *(*from)(uintptr_t *cells, unsigned int n))
{
	struct sheaf *sheaf = NULL;
	unsigned int looked = 0;

	for (uint32_t i = 1; !sheaf && looked < STEAL_MAX && i < os.nr_rows; i++) {
		unsigned int other = (row + i) % os.nr_rows;

		if (os.node_of_row[other] != os.node_of_row[row] ||
		    (os.llc_of_row[other] == os.llc_of_row[row]) != near)
			continue;
		looked++;
		sheaf = from(slot_of_row(cache->at.slots, other)->cells, SLOT_CELLS);
	}
	return sheaf;
}

static struct sheaf *take(struct sheaf_cache *cache,
			  struct sheaf *(*from)(uintptr_t *cells, unsigned int n))
{
	unsigned int row = os_row(), node = os.node_of_row[row];
	struct sheaf *sheaf = from(slot_of_row(cache->at.slots, row)->cells, SLOT_CELLS);
	uintptr_t *block;

	for (unsigned int i = 0; !sheaf && i < BARN_BLOCKS; i++) {
		block = block_of(cache, node, i, false);
		if (!block)
			break;
		sheaf = from(block, BARN_BLOCK_CELLS);
	}
	if (!sheaf)
		sheaf = steal(cache, row, true, from);
	if (!sheaf)
		sheaf = steal(cache, row, false, from);
	return sheaf;
}

struct sheaf *barn_take_full(struct sheaf_cache *cache)
{
	return take(cache, cells_take_full);
}

struct sheaf *barn_take_empty(struct sheaf_cache *cache)
{
	return take(cache, cells_take_empty);
}

static bool put(struct sheaf_cache *cache, struct sheaf *sheaf, bool full)
{
	unsigned int row = os_row(), node = os.node_of_row[row];
	struct slot *slot = slot_of_row(cache->at.slots, row);
	uint32_t shard = os_load_relaxed(&cache->shard_full);
	uint32_t left = os_load_relaxed(full ? &cache->barn_full : &cache->barn_empty);

	if (full ? cells_put_full(slot->cells, shard, sheaf)
		 : cells_put_empty(slot->cells, SLOT_CELLS, shard, sheaf))
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
	return put(cache, sheaf, true);
}

bool barn_put_empty(struct sheaf_cache *cache, struct sheaf *sheaf)
{
	return put(cache, sheaf, false);
}

void barn_for_each_cells(struct sheaf_cache *cache,
			 void (*visit)(void *data, uintptr_t *cells, unsigned int n), void *data)
{
	for (uint32_t row = 0; row < os.nr_rows; row++)
		visit(data, slot_of_row(cache->at.slots, row)->cells, SLOT_CELLS);
	for (uint32_t node = 0; node < os.nr_nodes; node++)
		for (unsigned int i = 0; i < BARN_BLOCKS; i++) {
			uintptr_t *block = block_of(cache, node, i, false);

			if (block)
				visit(data, block, BARN_BLOCK_CELLS);
		}
}

static void take_cells(void *data, uintptr_t *cells, unsigned int n)
{
	struct sheaf **list = data;

	for (unsigned int i = 0; i < n; i++) {
		struct sheaf *sheaf;

		/* Reading first keeps the pages of CPUs that never ran unwritten. */
		if (!os_load_relaxed(&cells[i]))
			continue;
		sheaf = barn_cell_sheaf(os_exchange(&cells[i], 0));
		if (!sheaf)
			continue;
		sheaf->next = *list;
		*list = sheaf;
	}
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

void barn_set_limits(struct sheaf_cache *cache)
{
	size_t rows = (os.nr_rows + os.nr_nodes - 1) / os.nr_nodes;
	size_t most = rows * SLOT_CELLS + BARN_BLOCKS * BARN_BLOCK_CELLS;
	size_t sheaves = cache->barn_objects / cache->capacity;
	size_t by_bytes = cache->barn_bytes / ((size_t)cache->capacity * cache->slab.size);
	size_t shard;

	sheaves = sheaves < by_bytes ? sheaves : by_bytes;
	sheaves = sheaves < BARN_FLOOR ? BARN_FLOOR : sheaves > most ? most : sheaves;
	/* Three quarters to the shards, as long as each then has at least one. */
	shard = sheaves * 3 / 4 / rows;
	shard = shard > SLOT_CELLS ? SLOT_CELLS : shard;
	os_store_relaxed(&cache->shard_full, (uint32_t)shard);
	os_store_relaxed(&cache->barn_full, (uint32_t)(sheaves - shard * rows));
	os_store_relaxed(&cache->barn_empty, (uint32_t)(sheaves - shard * rows));
}
