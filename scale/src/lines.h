/* SPDX-License-Identifier: MIT */
/*
 * The price of memory: which CPU has which cache line, and what it costs to get it from there.
 *
 *   directory, by line:   | number | owner | cores that have it (bits) | last cache | busy until |
 *   private cache, by core: sets of LINES_WAYS words: number | flags, newest first
 *
 * A core has a line exclusively (it may write it without a request), shares it, or does not have
 * it. To read, it needs either; to write, it needs it exclusively, and every other core loses it.
 * Two threads of a core have one private cache; what one of them wrote costs the other one
 * same_core once. Lines that a private cache evicts stay in its last-level cache. A line that was
 * never touched comes from memory, on the node of the CPU that touched its page first (homes.h).
 *
 *   access   found                               cost of                     others afterwards
 *   read     exclusive in another core's cache   the way to that core        share it
 *            written by the core's other thread  same_core
 *            shared                              the way to the nearest one  share it
 *            in a last-level cache               l3, or the way there
 *            in memory                           near or far
 *   write    in other caches                     the way to the farthest     lose it
 *            else                                as a read
 *
 * A line moves to one core at a time: a core that requests it while it moves waits until it has
 * arrived. Copies of a line that nobody writes do not delay each other.
 *
 * Not modelled: the capacity of last-level caches (nothing leaves them), the bandwidth of links,
 * store buffers, prefetches and misses that overlap (the CPU waits for each), the TLB.
 *
 * Invariants
 *  W1. A line with an owner is in that core's private cache, marked as writable, and in no other.
 *  W2. A core's bit is set in the directory exactly if the line is in its private cache.
 *  W3. A line that is in no private cache has a last cache, unless it is in memory only.
 *
 * Callers: scale/src/, scale/tests/lines.c. It knows nothing about the allocator, fibres or time:
 * callers make accesses in the order of their times.
 */
#ifndef SHEAF_SCALE_LINES_H
#define SHEAF_SCALE_LINES_H

#include "scale/src/machine.h"

#define LINES_SHIFT 6
#define LINES_WAYS  8

struct lines;

struct lines_move {
	uint64_t done;		/* when the CPU has the line */
	enum machine_cost from; /* where it was; MACHINE_own: here, and this CPU may now write it */
};

/* NULL: no memory. `machine` must outlive it. */
struct lines *lines_new(const struct machine *machine);
void lines_delete(struct lines *lines);

/* True if the CPU has this line (a number above 0), and if it wants to write, may write it. */
bool lines_has(struct lines *lines, unsigned int cpu, uintptr_t line, bool write);

/*
 * Get a line for which lines_has() is false, at this time. `home` is the node of its memory. O(CPUs
 * that have it).
 */
struct lines_move lines_get(struct lines *lines, unsigned int cpu, uintptr_t line, bool write,
			    uint64_t now, unsigned int home);

/* Abort with a message on standard error if an invariant does not hold. O(lines). For tests. */
void lines_check(const struct lines *lines);

#endif
