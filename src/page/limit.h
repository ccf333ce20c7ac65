/* SPDX-License-Identifier: MIT */
/*
 * The memory that the library holds, and the two limits of it that a program may set.
 *
 * Held memory is pages in use, free pages that have not returned to the system, blocks that are
 * mappings of their own, and samples (debug/guard.h). It is counted where pages that the system may
 * have to provide are taken, and where pages return: both cost far more than a counter.
 *
 *   take a run      clean pages in it are held from now on; pages that were free and not returned
 *                   are held already
 *   free a run      nothing changes; clean pages that nobody touched are no longer held
 *   discard         its pages are no longer held
 *
 * Above the soft limit, free memory returns without delay, and layers above reclaim
 * (cache/reclaim.h). While the system is short of memory, that limit is 0. The hard limit refuses
 * pages, as a system without memory would.
 *
 * Invariants
 *  LIMIT-H1. held = used + dirty pages of every range + mappings, in use or waiting (map_kept.h) +
 *      samples without closed pages, whenever no range's lock is held.
 *  LIMIT-H2. With a hard limit, no run is taken that lifts `held` above it; a run of pages that are
 *      held already is found, if there is one; if not, freed mappings that wait are unmapped.
 *      `held` may still be above it: the limit was set below it, or the system may make a huge page
 *      of a chunk that became free (huge.c).
 *
 * Not counted are descriptors, areas of slot rows and those of slab_guard_pools, objects
 * between closed pages, and the file of counters.
 *
 * Locks: none. Callers: src/page/, src/cache/, src/stats/.
 */
#ifndef SHEAF_PAGE_LIMIT_H
#define SHEAF_PAGE_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/atomic.h"

#define PAGE_NO_LIMIT SIZE_MAX

struct page_limit {
	/* Pages of OS_PAGE, or PAGE_NO_LIMIT. */
	size_t soft, hard;
	size_t target; /* soft, as the program set it: under pressure, soft is 0 */
	uint32_t pressed;
	/* In a line that is written when memory comes or goes. */
	size_t held __attribute__((aligned(64)));
	uint64_t failures;	      /* allocations that failed at the hard limit */
	uint32_t phase, returning[2]; /* by phase */
	uint32_t last_looks;	      /* searches of threads that will fail if they find nothing */
} __attribute__((aligned(64)));
extern struct page_limit page_limit __attribute__((visibility("hidden")));

/* Hold this many more pages. False: the hard limit refuses them. */
bool page_hold(size_t pages);
/* Hold them whatever the limit. */
static inline void page_hold_anyway(size_t pages)
{
	os_fetch_add_relaxed(&page_limit.held, pages);
}

static inline void page_hold_less(size_t pages)
{
	os_fetch_sub(&page_limit.held, pages);
}

/*
 * Call these around the return of memory to the system, and around the inspection of a held slab
 * (slab/hold.c): other threads cannot find that memory, although it is still counted as held. A
 * thread that a limit refused waits for them before it gives up. Returns the argument for
 * page_end_return().
 */
static inline uint32_t *page_begin_return(void)
{
	uint32_t *count = &page_limit.returning[os_load_relaxed(&page_limit.phase) & 1];

	os_fetch_add(count, 1);
	return count;
}

static inline void page_end_return(uint32_t *count)
{
	os_fetch_sub(count, 1);
}

static inline bool page_is_returning(void)
{
	return os_load_acquire(&page_limit.returning[0]) ||
	       os_load_acquire(&page_limit.returning[1]);
}

/* Sleeps until the threads that are returning memory now have done so; not for those that begin
 * later. One thread at a time. */
void page_wait_returning(void);
/* In a forked child, by its only thread. */
void page_forget_returning(void);

/* Around the last search for memory: no thread begins to inspect slabs during it. Either this
 * thread sees that one has begun, or that thread sees this search. */
static inline void page_begin_last_look(void)
{
	os_fetch_add(&page_limit.last_looks, 1);
	os_order_rmw();
}

static inline void page_end_last_look(void)
{
	os_fetch_sub(&page_limit.last_looks, 1);
}

/* For a thread that has begun a return. */
static inline bool page_sees_last_look(void)
{
	os_order_rmw();
	return os_load_relaxed(&page_limit.last_looks);
}

/* How many pages more the hard limit allows now. */
size_t page_room(void);
/* An allocation of this many pages returns NULL: count it, if the limit is the reason. */
void page_count_failure(size_t pages) OS_COLD;

static inline bool page_is_above_soft(void)
{
	size_t soft = os_load_relaxed(&page_limit.soft);

	return os_unlikely(soft != PAGE_NO_LIMIT) && os_load_relaxed(&page_limit.held) > soft;
}

/* Bytes; 0: none. */
void page_set_limits(size_t soft, size_t hard);
/* The system is short of memory, or no longer is: as long as it is, all memory is above the soft
 * limit. */
void page_press(bool pressed);

#endif
