/* SPDX-License-Identifier: MIT */
/*
 * How far a CPU runs ahead of cache lines that have not arrived: misses overlap.
 *
 *   program order   load A   load B   store C   load *A ...     the clock is here
 *   on their way    |----- A ------|
 *                            |------ B ------|
 *                                     |------- C -------|
 *                                  |------- *A -------|         requested when A has arrived
 *
 * Rules
 *  O1. An access requests its line and does not wait for it.
 *  O2. It can do so only when its address is known. An address is taken to depend on a load that
 *      has not arrived if it lies less than AHEAD_REACH bytes above the pointer that was loaded.
 *  O3. At most `misses` lines (of the machine file) are in flight for a CPU. The next one is
 *      requested when the first of these has arrived.
 *  O4. A load that has not arrived does not retire, and at most `ahead` of work (of the machine
 *      file) fits behind it: then the CPU stalls until it arrives. Stores do not stall it.
 *  O5. The CPU waits for an atomic change and for a load that acquires, because usually a branch
 *      depends on the value, which changed when the line moved. An atomic change retires when all
 *      earlier requests have arrived; until then it stalls the CPU as a load does.
 *
 * Times are in picoseconds. Callers: scale/src/, scale/tests/ahead.c.
 */
#ifndef SHEAF_SCALE_AHEAD_H
#define SHEAF_SCALE_AHEAD_H

#include <stdint.h>

#define AHEAD_LINES 64	/* in flight, at most */
#define AHEAD_LOADS 64	/* that have not arrived, at most */
#define AHEAD_REACH 512 /* bytes */

struct ahead {
	unsigned int nr_lines, nr_loads, first_load;
	struct ahead_line {
		uintptr_t line;
		uint64_t arrives;
	} lines[AHEAD_LINES];
	struct ahead_load {
		uintptr_t value;
		uint64_t issued, arrives;
	} loads[AHEAD_LOADS]; /* from first_load on, in program order */
};

/* When the CPU can continue: it is never further ahead of a load than `most` (O4). */
uint64_t ahead_limit(struct ahead *ahead, uint64_t now, uint64_t most);
/* When this address is known (O2). */
uint64_t ahead_known(const struct ahead *ahead, uintptr_t address, uint64_t now);
/* When one more line can be requested, with at most `most` in flight (O3). */
uint64_t ahead_room(struct ahead *ahead, uint64_t now, unsigned int most);
/* A line was requested. There must be room. */
void ahead_asked(struct ahead *ahead, uintptr_t line, uint64_t arrives);
/* When this line arrives: `now` if it is not in flight. */
uint64_t ahead_arrival(const struct ahead *ahead, uintptr_t line, uint64_t now);
/* A load of this value, which arrives at `arrives`. */
void ahead_loaded(struct ahead *ahead, uintptr_t value, uint64_t now, uint64_t arrives);
/* When all requested lines have arrived (O5). */
uint64_t ahead_all(const struct ahead *ahead, uint64_t now);

#endif
