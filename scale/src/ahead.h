/* SPDX-License-Identifier: MIT */
/*
 * How far a CPU runs ahead of cache lines that have not arrived: misses overlap.
 *
 *   program order   load A   load B   store C   load *A ...     the clock is here
 *   on their way    |----- A ------|
 *                            |------ B ------|
 *                                     |------- C -------|
 *                                  |------- *A -------|         asked for when A has arrived
 *
 * Rules
 *  O1. An access asks for its line and does not wait for it.
 *  O2. It can ask only when its address is known. An address is taken to depend on a load that has
 *      not arrived if it lies less than AHEAD_REACH bytes above the pointer that was loaded.
 *  O3. A CPU waits for so many lines at most (`misses` of the machine file). The next one is asked
 *      for when the first of these has arrived.
 *  O4. A load that has not arrived does not retire, and so much work fits behind it at most
 *      (`ahead` of the machine file): then the CPU stands still until it arrives. Stores do not
 *      hold it up.
 *  O5. An atomic change and a load that acquires are waited for, because usually a branch depends
 *      on what they find, which changed when the line moved. An atomic change retires when all that
 *      was asked for before it is here: until then it holds the CPU up as a load does.
 *
 * Times are in picoseconds. Callers: scale/src/, scale/tests/ahead.c.
 */
#ifndef SHEAF_SCALE_AHEAD_H
#define SHEAF_SCALE_AHEAD_H

#include <stdint.h>

#define AHEAD_LINES 64	/* on their way, at most */
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

/* When the CPU can go on: it is never further ahead of a load than `most` (O4). */
uint64_t ahead_limit(struct ahead *ahead, uint64_t now, uint64_t most);
/* When this address is known (O2). */
uint64_t ahead_known(const struct ahead *ahead, uintptr_t address, uint64_t now);
/* When one more line can be asked for, with `most` at once (O3). */
uint64_t ahead_room(struct ahead *ahead, uint64_t now, unsigned int most);
/* A line was asked for. There must be room. */
void ahead_asked(struct ahead *ahead, uintptr_t line, uint64_t arrives);
/* When this line is here: `now` if it is not on its way. */
uint64_t ahead_arrival(const struct ahead *ahead, uintptr_t line, uint64_t now);
/* A load of this value, which is here at `arrives`. */
void ahead_loaded(struct ahead *ahead, uintptr_t value, uint64_t now, uint64_t arrives);
/* When all lines that were asked for are here (O5). */
uint64_t ahead_all(const struct ahead *ahead, uint64_t now);

#endif
