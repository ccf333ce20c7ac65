/* SPDX-License-Identifier: MIT */
/*
 * What nobody uses any more: rows and shards of CPUs where the program no longer runs, sheaves that
 * lie in a barn, slots that do not change. Their objects return to their slabs.
 *
 * Three signs, none of which costs a fast path anything:
 *
 *  stamps   slow paths that look at the clock note when a row, and a CPU's shard, were last used
 *  marks    a visit marks each sheaf in a barn; an exchange drops the mark. A sheaf that still has
 *           it at the next visit was not needed in between: barns work like stacks, so those at the
 *           bottom are found
 *  prints   a number made of the sheaves in a cache's slots and of their sizes. If it is the same
 *           at the next visit, no CPU used the cache, or it used it in pairs
 *
 * A row whose threads only use fast paths looks idle once; each of its caches then refills one
 * sheaf, and the row is not looked at again before its next slow path.
 *
 * Invariants
 *  I1. Nothing here waits for another thread: a slot or a cell that is in use now is left alone.
 *  I2. A sheaf that is taken from a cell is shown by the cell in transit (H3 of sheaf.h).
 *
 * Locks: the drain lock, by try-lock. Callers: src/cache/.
 */
#ifndef SHEAF_PERCPU_IDLE_H
#define SHEAF_PERCPU_IDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "os/atomic.h"
#include "os/machine.h"
#include "page/decay.h"
#include "percpu/sheaf.h"

/*
 * A row is idle if no slow path ran there for so many milliseconds. With half, threads that sleep
 * for a quarter of a second lose their sheaves each time; with double, a burst of threads leaves
 * its sheaves for longer than a second.
 */
#define IDLE_MS	     500
#define IDLE_NOTE    64 /* a stamp changes at most this often, in ms */
#define IDLE_AT_ONCE 4	/* rows that are found and emptied together */

/* When slow paths last ran there, in ms; 0: not since it was emptied. */
struct idle_stamps {
	uint32_t slots, shard; /* by row; by CPU */
};
extern struct idle_stamps idle_stamps[OS_MAX_ROWS];

static inline void idle_note(uint32_t *stamp, uint32_t now)
{
	if (__builtin_expect(now - os_load_relaxed(stamp) >= IDLE_NOTE, 0))
		os_store_relaxed(stamp, now ? now : 1);
}

/* A slow path that exchanges sheaves runs here and now. */
static inline void idle_not_here(void)
{
	uint32_t now = os_now_ms();

	decay_see_time(now);
	idle_note(&idle_stamps[os_row()].slots, now);
	idle_note(&idle_stamps[os_cpu()].shard, now);
}

/* A bit for each row, and for each CPU's shard. */
struct idle_rows {
	uint64_t slots[OS_MAX_ROWS / 64], shards[OS_MAX_ROWS / 64];
	uint32_t next; /* the row from which the next search begins */
	bool more;     /* there were others, beyond IDLE_AT_ONCE */
	bool later;    /* there are rows that may become idle */
};

/* Find rows that are idle now. Returns false if there is none. */
bool idle_find(struct idle_rows *rows, uint32_t now);
/* Give back sheaves in barns that are marked, until `most` objects went; if fewer did, mark the
 * others. Returns the number of objects: from `most` on, call it again. */
unsigned int idle_age(struct sheaf_cache *cache, unsigned int most);

/* The print of the cache's slots; 0 if they are all empty. */
uint64_t idle_print(struct sheaf_cache *cache);
/* Where a visit of one cache continues. */
struct idle_place {
	unsigned int row, cell;
	bool more; /* there are rows from this place on */
};
/*
 * Empty the cache's slots and shards of these rows (NULL: the slots of all rows) from this place
 * on, until `most` objects went, and the rest of a slot. Returns their number, roughly.
 */
unsigned int idle_empty(struct sheaf_cache *cache, const struct idle_rows *rows,
			struct idle_place *at, unsigned int most);

#endif
