/* SPDX-License-Identifier: MIT */
/* Idle rows, sheaves and caches; see idle.h. */
#include "percpu/idle.h"

#include <string.h>

#include "os/atomic.h"
#include "os/machine.h"
#include "percpu/barn.h"
#include "percpu/cells.h"
#include "percpu/drain.h"
#include "percpu/in_hand.h"
#include "percpu/remote.h"
#include "percpu/rows.h"
#include "percpu/stat.h"

#define CALL "kmem_cache_free" /* in reports of wrong pointers: that is how they came here */

struct idle_stamps idle_stamps[OS_MAX_ROWS];

/* --- rows ------------------------------------------------------------------------------------- */

static unsigned int note_idle(uint32_t *stamp, uint64_t *bits, unsigned int row, uint32_t now)
{
	uint32_t seen = os_load_relaxed(stamp);

	/* It may be one ahead: see idle_note(). */
	if (!seen || (int32_t)(now - seen) < IDLE_MS || !os_cmpxchg(stamp, &seen, 0))
		return 0;
	bits[row / 64] |= UINT64_C(1) << row % 64;
	return 1;
}

bool idle_find(struct idle_rows *rows, uint32_t now)
{
	unsigned int found = 0;

	memset(rows->slots, 0, sizeof(rows->slots));
	memset(rows->shards, 0, sizeof(rows->shards));
	rows->later = false;
	for (uint32_t i = 0; i < os.nr_cpus && found < IDLE_AT_ONCE; i++) {
		unsigned int row = rows->next++ % os.nr_cpus;

		found += note_idle(&idle_stamps[row].slots, rows->slots, row, now);
		found += note_idle(&idle_stamps[row].shard, rows->shards, row, now);
		rows->later |= os_load_relaxed(&idle_stamps[row].slots) != 0;
	}
	rows->more = found >= IDLE_AT_ONCE;
	return found;
}

static bool slot_is_empty(const struct slot *slot)
{
	return os_load_relaxed(&slot->main) == &sheaf_bootstrap &&
	       os_load_relaxed(&slot->pair) == (uintptr_t)&sheaf_bootstrap &&
	       !slot_has_remote(slot);
}

static bool has_sheaves(const struct sheaf_cache *cache, unsigned int row)
{
	char *handle = cache->at.handle;

	return rows_from(handle, row) == row && !slot_is_empty(slot_of_row(handle, row));
}

/* Remove the rows that the cache does not use (W2), and those whose slots are empty. Returns the
 * number of the others. */
static unsigned int keep_used(const struct sheaf_cache *cache, uint64_t *rows)
{
	unsigned int n = 0;

	for (unsigned int word = 0; word < (os.nr_rows + 63) / 64; word++)
		for (uint64_t bits = rows[word]; bits; bits &= bits - 1) {
			unsigned int row = word * 64 + (unsigned int)__builtin_ctzll(bits);

			if (!has_sheaves(cache, row))
				rows[word] &= ~(bits & -bits);
			else
				n++;
		}
	return n;
}

/* --- cells ------------------------------------------------------------------------------------ */

/* Give back what is in the cell. Returns the number of objects. */
static unsigned int empty_cell(struct sheaf_cache *cache, uintptr_t *at, uintptr_t cell)
{
	struct sheaf *sheaf = barn_sheaf(cell);
	unsigned int n;

	if (!os_cmpxchg(at, &cell, (uintptr_t)sheaf | barn_transit(cache)))
		return 0;
	if (in_hand_sees_drain(cache)) {
		os_store_release(at, cell);
		return 0;
	}
	n = sheaf->size;
	if (n)
		sheaf_flush(cache, sheaf, CALL);
	os_store_release(at, 0);
	sheaf_release(cache, sheaf);
	return n;
}

static unsigned int empty_shard(struct sheaf_cache *cache, unsigned int cpu)
{
	const struct barn *barn = os_load_acquire(&cache->barns[os.node_of_row[cpu]]);
	unsigned int place = os.place_of[cpu].place, n = 0;
	struct slot *slot;

	/* A shard that was never used is not even read (N1). */
	if (!barn || barn_next_used(barn, place, place + 1) != place)
		return 0;
	slot = slot_of_row(cache->at.handle, cpu);
	for (unsigned int i = 0; i < barn_shard_cells(); i++) {
		uintptr_t cell = os_load_relaxed(&slot->cells[i]);

		if (cell && !(cell & BARN_TRANSIT))
			n += empty_cell(cache, &slot->cells[i], cell);
	}
	return n;
}

unsigned int idle_empty(struct sheaf_cache *cache, const struct idle_rows *rows)
{
	uint64_t slots[OS_MAX_ROWS / 64];
	unsigned int n = 0, used;

	if (!cache->barns)
		return 0;
	for (unsigned int word = 0; word < (os.nr_cpus + 63) / 64; word++)
		for (uint64_t bits = rows->shards[word]; bits; bits &= bits - 1)
			n += empty_shard(cache, word * 64 + (unsigned int)__builtin_ctzll(bits));
	memcpy(slots, rows->slots, sizeof(slots));
	used = keep_used(cache, slots);
	if (used && sheaf_drain_rows(cache, slots))
		n += 2 * used * sheaf_capacity(cache);
	if (n)
		barn_forget_no_room(cache);
	return n;
}

struct aging {
	struct sheaf_cache *cache;
	unsigned int n, most;
};

static void age_cells(void *data, uintptr_t *cells, unsigned int n)
{
	struct aging *aging = data;

	for (unsigned int i = 0; i < n; i++) {
		uintptr_t cell = os_load_relaxed(&cells[i]);

		if (!cell || cell & BARN_TRANSIT)
			continue;
		if (!(cell & BARN_OLD))
			os_cmpxchg(&cells[i], &cell, cell | BARN_OLD);
		else if (aging->n < aging->most)
			aging->n += empty_cell(aging->cache, &cells[i], cell);
	}
}

unsigned int idle_age(struct sheaf_cache *cache, unsigned int most)
{
	struct aging aging = {cache, 0, most};

	if (!cache->barns)
		return 0;
	barn_for_each_cells(cache, age_cells, &aging);
	if (aging.n)
		barn_forget_no_room(cache);
	return aging.n;
}

/* --- caches ----------------------------------------------------------------------------------- */

static uint64_t mixed(uint64_t print, uint64_t word)
{
	return (print ^ word) * UINT64_C(0x9e3779b97f4a7c15) + (print >> 32);
}

uint64_t idle_print(struct sheaf_cache *cache)
{
	uint64_t print = 0;

	if (!cache->barns)
		return 0;
	rows_for_each (cache->at.handle, row) {
		const struct slot *slot = slot_of_row(cache->at.handle, row);
		const struct sheaf *m;

		if (slot_is_empty(slot))
			continue;
		/* Whoever owns it now: headers may be read at any time (view_slot()). */
		m = os_load_relaxed(&slot->main);
		print = mixed(print, (uintptr_t)m);
		print = mixed(print, os_load_relaxed(&slot->pair));
		print = mixed(print, os_load_relaxed(&m->word)) | 1;
		for (unsigned int i = 0; i < slot_remotes(); i++) {
			const struct sheaf *remote = slot_remote(slot, i);

			if (remote)
				print = mixed(print, os_load_relaxed(&remote->word)) | 1;
		}
	}
	return print;
}

bool idle_empty_next(struct sheaf_cache *cache, unsigned int *next)
{
	uint64_t rows[OS_MAX_ROWS / 64] = {0};
	unsigned int row = *next, n = 0;

	for (; n < IDLE_AT_ONCE && (row = rows_from(cache->at.handle, row)) < os.nr_rows; row++)
		if (!slot_is_empty(slot_of_row(cache->at.handle, row))) {
			rows[row / 64] |= UINT64_C(1) << row % 64;
			n++;
		}
	if (n)
		sheaf_drain_rows(cache, rows);
	*next = row;
	return row < os.nr_rows;
}
