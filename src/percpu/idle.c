/* SPDX-License-Identifier: MIT */
/* Idle rows, sheaves and caches; see idle.h. */
#include "percpu/idle.h"

#include <string.h>

#include "os/assert.h"
#include "os/view.h"
#include "page/pool.h"
#include "percpu/barn/barn.h"
#include "percpu/barn/budget.h"
#include "percpu/barn/cells.h"
#include "percpu/remote.h"
#include "percpu/rows.h"
#include "percpu/stat.h"

struct idle_stamps *idle_stamps;

bool idle_init(void)
{
	return idle_stamps || (idle_stamps = pool_alloc(os.nr_cpus * sizeof(*idle_stamps)));
}

/* --- rows ------------------------------------------------------------------------------------- */

static bool note_idle(uint32_t *stamp, uint64_t *bits, unsigned int row, uint32_t now)
{
	uint32_t seen = os_load_relaxed(stamp);

	/* It may be one ahead: see idle_note(). */
	if (!seen || (int32_t)(now - seen) < IDLE_MS || !os_cmpxchg(stamp, &seen, 0))
		return false;
	bits[row / 64] |= UINT64_C(1) << row % 64;
	return true;
}

bool idle_find(struct idle_rows *rows, uint32_t now)
{
	bool found = false;

	memset(rows, 0, sizeof(*rows));
	for (unsigned int row = 0; row < os.nr_cpus; row++) {
		struct idle_stamps *stamps = &idle_stamps[row];

		found |= note_idle(&stamps->slots, rows->slots, row, now);
		found |= note_idle(&stamps->shard, rows->shards, row, now);
		rows->later |= os_load_relaxed(&stamps->slots) != 0;
	}
	return found;
}

static bool slot_is_empty(const struct slot *slot)
{
	return os_load_relaxed(&slot->main) == &sheaf_bootstrap &&
	       os_load_relaxed(&slot->pair) == (uintptr_t)&sheaf_bootstrap &&
	       !slot_has_remote(slot, false);
}

/* --- cells ------------------------------------------------------------------------------------ */

/* Give back what is in the cell. Returns the number of objects. */
static unsigned int empty_cell(struct sheaf_cache *cache, uintptr_t *at, uintptr_t cell)
{
	struct sheaf *sheaf = barn_sheaf(cell);
	unsigned int n;

	os_assert(!os_peek(&cache->at.stop)); /* IDLE-I2: no drain takes the sheaf */
	if (!os_cmpxchg(at, &cell, (uintptr_t)sheaf | barn_transit(cache)))
		return 0;
	n = sheaf->size;
	if (n)
		sheaf_flush(cache, sheaf);
	/* IDLE-I2 */
	os_assert((os_peek(at) & BARN_TRANSIT) && barn_sheaf(os_peek(at)) == sheaf);
	os_store_release(at, 0);
	sheaf_release(cache, sheaf);
	return n;
}

/* Returns false if `*n` reached `most` before the last cell. */
static bool empty_shard(struct sheaf_cache *cache, struct idle_place *at, unsigned int most,
			unsigned int *n)
{
	const struct barn *barn = os_load_acquire(&cache->barns[os.node_of_row[at->row]]);
	unsigned int place = os.place_of[at->row].place;
	struct slot *slot;

	/* A shard that was never used is not even read (BARN-N1). */
	if (!barn || barn_next_used(barn, place, place + 1) != place)
		return true;
	slot = slot_of_row(cache->at.handle, at->row);
	for (; at->cell <= barn_shard_cells(); at->cell++) {
		uintptr_t cell = os_load_relaxed(&slot->cells[at->cell]);

		if (*n >= most)
			return false;
		if (cell && !(cell & BARN_TRANSIT))
			*n += empty_cell(cache, &slot->cells[at->cell], cell);
	}
	return true;
}

/* A hint, for a cell that is not in transit: headers may be read at any time. */
static bool is_empty(uintptr_t cell)
{
	return !(cell & BARN_FULL) && !(os_load_relaxed(&barn_sheaf(cell)->word) & SHEAF_SIZE);
}

unsigned int idle_age(struct sheaf_cache *cache, unsigned int most)
{
	unsigned int n = 0, empty = 0, node = 0,
		     limit = os_load_relaxed(&slab_rest(&cache->slab)->barn_empty);

	if (!cache->barns)
		return 0;
	barn_for_each_cell (cache, at) {
		uintptr_t cell = n < most ? os_load_relaxed(at) : 0;

		/* None in transit is marked. */
		if (cell & BARN_OLD)
			n += empty_cell(cache, at, cell);
	}
	if (n)
		barn_forget_no_room(cache);
	if (n >= most)
		return n;
	barn_for_each_cell (cache, at) {
		uintptr_t cell = os_load_relaxed(at);

		if (at_walk.node != node) {
			node = at_walk.node;
			empty = 0;
		}
		if (!cell || (cell & BARN_TRANSIT))
			continue;
		if (limit && is_empty(cell) && empty++ >= limit)
			empty_cell(cache, at, cell);
		else if (!(cell & BARN_OLD))
			os_cmpxchg(at, &cell, cell | BARN_OLD);
	}
	return n;
}

/* --- caches ----------------------------------------------------------------------------------- */

unsigned int idle_rows_work(struct sheaf_cache *cache)
{
	unsigned int work = 0;

	rows_for_each (cache->at.handle, row)
		work += IDLE_ROW_WORK;
	return work;
}

static uint64_t mixed(uint64_t print, uint64_t word)
{
	return (print ^ word) * UINT64_C(0x9e3779b97f4a7c15) + (print >> 32);
}

static uint64_t print_of_slot(const struct slot *slot)
{
	const struct sheaf *m = os_load_relaxed(&slot->main);
	uint64_t print;

	if (slot_is_empty(slot))
		return 0;
	/* Whoever owns it now: headers may be read at any time (view_slot()). */
	print = mixed((uintptr_t)m, os_load_relaxed(&slot->pair));
	print = mixed(print, os_load_relaxed(&m->word));
	for (unsigned int i = 0; i < slot_remotes(); i++) {
		const struct sheaf *remote = slot_remote(slot, i, false);

		if (remote)
			print = mixed(print, os_load_relaxed(&remote->word));
	}
	return print;
}

uint64_t idle_print(struct sheaf_cache *cache)
{
	uint64_t print = 0;

	if (cache->barns)
		rows_for_each (cache->at.handle, row)
			print += print_of_slot(slot_of_row(cache->at.handle, row));
	return print;
}

/* The row was idle, and still is. If not, its bit goes. */
static bool row_is_idle(uint64_t *bits, unsigned int row, const uint32_t *stamp)
{
	if (os_load_relaxed(stamp))
		bits[row / 64] &= ~(UINT64_C(1) << row % 64);
	return bits[row / 64] >> row % 64 & 1;
}

/* The first row from this one on that was idle; os.nr_rows if there is none. */
static unsigned int next_idle(const struct idle_rows *rows, unsigned int row)
{
	for (; row < os.nr_cpus; row = (row | 63) + 1) {
		uint64_t bits = (rows->slots[row / 64] | rows->shards[row / 64]) >> row % 64;

		if (bits)
			return row + (unsigned int)__builtin_ctzll(bits);
	}
	return os.nr_rows;
}

/* Those that a drain would take now. */
static unsigned int objects_of_slot(const struct slot *slot)
{
	struct slot_view view;
	unsigned int n = 0;

	for (unsigned int i = 0; i < slot_remotes(); i++) {
		const struct sheaf *remote = slot_remote(slot, i, false);

		n += remote ? (unsigned int)(os_load_relaxed(&remote->word) & SHEAF_SIZE) : 0;
	}
	return n + (view_slot(slot, &view) ? (unsigned int)(view.main & SHEAF_SIZE) +
						     (unsigned int)(view.spare & SHEAF_SIZE)
					   : 0);
}

/* Returns its number of objects; notes it if it has sheaves. */
static unsigned int note_slot(struct sheaf_cache *cache, unsigned int row, uint64_t *print,
			      struct drain *drain)
{
	const struct slot *slot = slot_of_row(cache->at.handle, row);

	/* Of a cache that does not use the row (ROWS-W2), not even its slot is read. */
	if (rows_from(cache->at.handle, row) != row || slot_is_empty(slot))
		return 0;
	*print -= print_of_slot(slot);
	drain->cache = cache;
	return objects_of_slot(slot);
}

unsigned int idle_empty(struct sheaf_cache *cache, struct idle_rows *rows, struct idle_place *at,
			unsigned int most, uint64_t *print, struct drain *drain)
{
	unsigned int n = 0, work = 0;

	*drain = (struct drain){.first = at->row, .rows = rows ? rows->slots : NULL};
	at->more = cache->barns != NULL;
	if (!at->more)
		return 0;
	for (; n + work < most; at->row++, at->cell = 0) {
		at->row = rows ? next_idle(rows, at->row) : rows_from(cache->at.handle, at->row);
		if (at->row >= os.nr_rows)
			break;
		work += IDLE_ROW_WORK;
		if (rows && row_is_idle(rows->shards, at->row, &idle_stamps[at->row].shard) &&
		    !empty_shard(cache, at, most > work ? most - work : 0, &n))
			break;
		if (!rows || row_is_idle(rows->slots, at->row, &idle_stamps[at->row].slots))
			work += note_slot(cache, at->row, print, drain);
	}
	at->more = at->row < os.nr_rows;
	drain->end = at->row;
	if (n)
		barn_forget_no_room(cache);
	return n + work;
}
