/* SPDX-License-Identifier: MIT */
/*
 * The price of memory: who has which cache line, and what it costs to get it from there.
 *
 *   directory, by line:  | number | owner | CPUs that have it (bits) | last cache | busy until |
 *   private cache, by CPU: sets of LINES_WAYS words: number << 1 | may be written, newest first
 *
 * A CPU has a line exclusively (it may write it without asking) or shares it, or has it not. To
 * read, it needs either; to write, it needs it exclusively, and every other CPU loses it. What a
 * private cache has no more room for stays in the last-level cache of its CPU. What was never
 * touched comes from memory, whose node is that of the CPU that touched its page first (homes.h).
 *
 *   access   found                               cost of                     others afterwards
 *   read     exclusive in another CPU's cache    the way to that CPU         share it
 *            shared                              the way to the nearest one  share it
 *            in a last-level cache               l3, or the way there
 *            in memory                           near or far
 *   write    in other caches                     the way to the farthest     lose it
 *            else                                as a read
 *
 * A line moves to one CPU at a time: who wants it while it moves waits until it has arrived. Copies
 * of a line that nobody writes are not in each other's way.
 *
 * Not modelled: the capacity of last-level caches (nothing leaves them), the bandwidth of links,
 * store buffers, prefetches and misses that overlap (each is waited for), pages in the TLB.
 *
 * Invariants
 *  W1. A line with an owner is in that CPU's private cache, marked as writable, and in no other.
 *  W2. A CPU's bit is set in the directory exactly if the line is in its private cache.
 *  W3. A line that is in no private cache has a last cache, unless it is in memory only.
 *
 * Callers: sim/scale/, tests/sim/lines.c. It knows nothing of the allocator, of fibres or of time:
 * callers make accesses in the order of their times.
 */
#ifndef SHEAF_SIM_SCALE_LINES_H
#define SHEAF_SIM_SCALE_LINES_H

#include "sim/scale/machine.h"

#define LINES_SHIFT 6
#define LINES_WAYS  8

struct lines;

struct lines_move {
	uint64_t done;		/* when the CPU has the line */
	enum machine_cost from; /* where it was: MACHINE_own: this CPU, which now may write it */
};

/* NULL: no memory. `machine` must stay. */
struct lines *lines_new(const struct machine *machine);
void lines_delete(struct lines *lines);

/* True if the CPU has this line (a number above 0), and may write it if it is to. */
bool lines_has(struct lines *lines, unsigned int cpu, uintptr_t line, bool write);

/*
 * Get a line that lines_has() denies, at this time. `home` is the node of its memory. O(CPUs that
 * have it).
 */
struct lines_move lines_get(struct lines *lines, unsigned int cpu, uintptr_t line, bool write,
			    uint64_t now, unsigned int home);

/* Stop with a line on standard error if an invariant does not hold. O(lines). For tests. */
void lines_check(const struct lines *lines);

#endif
