/* SPDX-License-Identifier: MIT */
/*
 * What the library does from time to time: it returns memory that has not been used for a while.
 *
 * The library has no thread of its own. So the slow paths read the clock (decay_see_time() of
 * page/decay.h), and a call that finds that DECAY_TICK_MS have passed does one round when it ends:
 * a bounded piece of work, so that no call takes long. A program that stays on the fast paths, or
 * calls nothing, pays nothing, and returns nothing. If more free memory must be returned than
 * one round can, the rounds that a pause skipped follow, each at the end of another slow call.
 *
 * With the option `background`, a thread of the library does the rounds, even while the program
 * sleeps, and calls do none. It sleeps longer and longer while it finds nothing to do. It is
 * started at the first round, and again in a forked child.
 *
 * A round:  free pages of one node (page/keep.c), and freed mappings of it (page/map_kept.h);
 *           each round another node. And a part of a pass over all caches (percpu/idle.h). The
 *           passes that have begun take turns, one in each round, so that none waits for the end of
 *           the others:
 *
 *   a pass over idle rows     looks every HOUSE_ROWS_MS for rows where the program no longer runs,
 *                             and empties them in every cache
 *   a pass over all caches    each two fifths of the option decay: sheaves that lay in barns
 *                             for so long; and the slots, empty slabs and capacity of caches that
 *                             nobody used. Ten times a second while sheaves hold more than they
 *                             may (percpu/barn/budget.h). Above the soft limit each second, and
 *                             then all sheaves and empty slabs that are not in use (reclaim.h)
 *
 * The caches that a round visits are drained together, with one pair of membarriers.
 *
 * With the option `pressure`, a round first asks whether the system reported memory pressure. Then
 * all memory is above the soft limit for a while.
 *
 * Invariants
 *  HOUSEKEEPING-K1. One thread at a time does a round; others skip it. fork() waits for its end,
 *      so that no page is in transit in a child.
 *  HOUSEKEEPING-K2. A round begins with no lock held and nothing in hand, and waits for no other
 *      thread, except briefly for a node's page lock, which it takes again after each piece of
 *      memory that it returned.
 *  HOUSEKEEPING-K3. Caches are visited with OS_RANK_CACHES held, by try-lock: they are not
 *      destroyed meanwhile. No function of the program runs there.
 *
 * Locks: OS_RANK_CACHES, OS_RANK_DRAIN and OS_RANK_NODE, by try-lock. If another thread has one of
 * the first two, the passes continue in the next round.
 * Callers: src/cache/.
 */
#ifndef SHEAF_CACHE_HOUSEKEEPING_H
#define SHEAF_CACHE_HOUSEKEEPING_H

#include "os/compiler.h"
#include "page/decay.h"

/* How often rows are looked at. With IDLE_MS, a row is emptied within a second. */
#define HOUSE_ROWS_MS 100

/* The shortest (while there is work) and the longest sleep of the thread between two rounds. */
#define HOUSE_SLEEP_LEAST DECAY_TICK_MS
#define HOUSE_SLEEP_MOST  1000

/* Do a round, or let the thread do it. */
void housekeep(void) OS_COLD;
/* Read what memory and CPU time the process is granted, unless it is known already. Waits until no
 * round runs. */
void housekeeping_know_grants(void);
/* Around fork(): no round runs. In the child there is no thread. */
void housekeeping_lock(void);
void housekeeping_unlock(void);
void housekeeping_in_child(void);

/* In passes.c, for a round: begin the passes that are due, and go on with one. Returns true if
 * there may soon be more to do. */
bool passes_go_on(uint32_t now);

/* At the end of a call, as cache_leave(). */
static inline void housekeep_if_due(void)
{
	if (os_unlikely(os_load_relaxed(&decay_time.due)))
		housekeep();
}

#endif
