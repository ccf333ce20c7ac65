/* SPDX-License-Identifier: MIT */
/*
 * What is counted, by windows of simulated time, and when a run is long enough.
 *
 * A window ends when every clock has passed its end. The run ends when three windows in a row have
 * the same number of operations and, at their ends, the same memory, each within TALLY_SAME percent
 * of the next; the windows before were warm-up. The last window is the result. Three, because two
 * may agree by chance while all CPUs wait for their first pages.
 *
 * Callers: scale/src/.
 */
#ifndef SHEAF_SCALE_TALLY_H
#define SHEAF_SCALE_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/lock.h"
#include "scale/src/machine.h"

#define TALLY_SAME 2 /* percent */

/* What a line that moved between CPUs belongs to. */
#define TALLY_KINDS(X)                                                                             \
	X(back, "memory of objects on its way back: the program writes a new object")              \
	X(object, "memory of objects otherwise")                                                   \
	X(pool, "sheaves, blocks of a barn and other structures of the library's pools")           \
	X(slot, "a CPU's slot: the words of its own sections")                                     \
	X(cell, "a CPU's shard of the barn")                                                       \
	X(handle, "a cache's handle")                                                              \
	X(slab, "descriptors and bits of slabs")                                                   \
	X(lock, "locks")                                                                           \
	X(other, "static data, stacks, the program's own")

enum tally_kind {
#define X(name, what) TALLY_##name,
	TALLY_KINDS(X)
#undef X
	TALLY_NR_KINDS
};

enum tally_side {
	TALLY_PROGRAM,
	TALLY_ALLOCATOR,
	TALLY_NR_SIDES
};

struct tally_lock {
	uint64_t taken, waited;	   /* times */
	uint64_t waiting, holding; /* ps */
};

struct tally {
	uint64_t operations;
	uint64_t pages_now, pages_most; /* at the window's end; the most in it */
	uint64_t moved[TALLY_NR_SIDES][TALLY_NR_KINDS];
	uint64_t from[TALLY_NR_SIDES][MACHINE_far + 1];
	struct tally_lock locks[OS_RANK_MAX];
};

/* Windows of this length, at most `most` of them. */
void tally_start(uint64_t window_ps, unsigned int most);
/* The window of this moment. */
struct tally *tally_at(uint64_t ps);
/* This lock was held, or waited for, from `from` to `to`: each window gets its part. */
void tally_lock_time(enum os_rank rank, bool waiting, uint64_t from, uint64_t to);
/* All clocks have passed this moment. Returns false once the run has ended. */
bool tally_see(uint64_t earliest, uint64_t pages_now);
/* True until tally_see() has returned false. */
bool tally_goes_on(void);
/* The last complete window, how many there were, and whether the run was steady. */
const struct tally *tally_result(unsigned int *windows, bool *steady);

/* For the heat list: this many lines moved for this instruction, or the CPU stalled there for this
 * long. */
void tally_heat(uintptr_t pc, unsigned int lines, uint64_t ps);
/* The instructions of the last window, by the time of stalls. Returns false after the last one. */
struct tally_hot {
	uintptr_t pc;
	uint64_t lines, ps;
};
bool tally_hottest(unsigned int rank, struct tally_hot *hot);

#endif
