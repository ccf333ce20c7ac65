/* SPDX-License-Identifier: MIT */
/*
 * Finds what is no longer used: rows and shards of CPUs where the program no longer runs, sheaves
 * that stay in a barn, slots that do not change. Their objects return to their slabs.
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
 * sheaf, and the row is not looked at again before its next slow path, which makes it a row in use.
 *
 * Invariants
 *  IDLE-I1. Nothing here waits for another thread: a slot or a cell that is in use now is left
 *      alone.
 *  IDLE-I2. A sheaf that is taken from a cell is shown by the cell in transit (SHEAF-H3).
 *
 * Locks: callers keep drains away (drain.h). Callers: src/cache/.
 */
#ifndef SHEAF_PERCPU_IDLE_H
#define SHEAF_PERCPU_IDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "os/atomic.h"
#include "os/machine.h"
#include "page/decay.h"
#include "percpu/drain.h"
#include "percpu/sheaf.h"

/*
 * A row is idle if no slow path ran there for this many milliseconds. With half, threads that sleep
 * for a quarter of a second lose their sheaves each time; with double, a burst of threads leaves
 * its sheaves for longer than a second.
 */
#define IDLE_MS	  500
#define IDLE_NOTE 64 /* a stamp changes at most this often, in ms */

/* Work counts in objects that return to their slabs, 20 ns each. A row of a cache that is looked
 * at, its slot or its shard, counts as this many: three lines of another CPU. */
#define IDLE_ROW_WORK 16

/* When slow paths last ran there, in ms; 0: not since it was emptied. */
struct idle_stamps {
	uint32_t slots, shard; /* by row; by CPU */
};
/* os.nr_cpus of them. */
extern struct idle_stamps *idle_stamps;
/* Before the first cache is made. False: no memory. */
bool idle_init(void);

static inline void idle_note(uint32_t *stamp, uint32_t now)
{
	if (os_unlikely(now - os_load_relaxed(stamp) >= IDLE_NOTE))
		os_store_relaxed(stamp, now ? now : 1);
}

/* A slow path that exchanges sheaves is running on this CPU. */
static inline void idle_mark_busy(void)
{
	uint32_t now = os_now_ms();

	decay_see_time(now);
	idle_note(&idle_stamps[os_row()].slots, now);
	idle_note(&idle_stamps[os_cpu()].shard, now);
}

/* A bit for each row, and for each CPU's shard. */
struct idle_rows {
	uint64_t slots[OS_MAX_ROWS / 64], shards[OS_MAX_ROWS / 64];
	bool later; /* there are rows that may become idle */
};

/* Find rows that are idle now. Returns false if there is none. */
bool idle_find(struct idle_rows *rows, uint32_t now);
/* Give back sheaves in barns that are marked, until `most` objects went; if fewer did, mark the
 * others, and free empty ones beyond their limit. Returns the number of objects: from `most` on,
 * call it again. */
unsigned int idle_age(struct sheaf_cache *cache, unsigned int most);
/* The work of looking at all rows that the cache uses. */
unsigned int idle_rows_work(struct sheaf_cache *cache);

/* The print of the cache's slots: a sum over them; 0 if they are all empty. */
uint64_t idle_print(struct sheaf_cache *cache);
/* Where a visit of one cache continues. */
struct idle_place {
	unsigned int row, cell;
	bool more; /* there are rows from this place on */
};
/*
 * Empty the cache's shards of these rows, and note in `drain` which of its slots are to be drained
 * (rows NULL: all slots, no shard), from this place on, until `most` work is done or noted, and the
 * rest of a slot. Returns the work, roughly. drain->cache: NULL if there is nothing to drain.
 * *print: an earlier print of the cache, which becomes that of the rest.
 */
unsigned int idle_empty(struct sheaf_cache *cache, struct idle_rows *rows, struct idle_place *at,
			unsigned int most, uint64_t *print, struct drain *drain);

#endif
