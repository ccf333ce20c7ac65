/* SPDX-License-Identifier: MIT */
/*
 * Reclaim: free memory returns because a limit says so, or there is no more.
 *
 *   above the soft limit   free pages do not wait (page/limit.h). A round of housekeeping empties
 *                          one cache after the other. Calls that may reclaim, and the background
 *                          thread, ask shrinkers for a part of their objects.
 *   no memory              (the hard limit, or the system) a call that may reclaim empties its own
 *                          cache and tries again; then all caches, and what shrinkers can free, and
 *                          tries again.
 *
 * Invariants
 *  R1. Shrinkers run only in calls that may reclaim, in sheaf_trim(), sheaf_set_limits() and in the
 *      background thread: frees and GFP_NOWAIT never call the program.
 *
 * Locks: those of kmem_cache_shrink(). Callers: src/cache/, src/kmalloc/; with no lock held, and
 * nothing in hand but what the program will get.
 */
#ifndef SHEAF_CACHE_RECLAIM_H
#define SHEAF_CACHE_RECLAIM_H

#include <sheaf/slab.h>

#include "page/limit.h"

/* Above the soft limit, shrinkers are asked so often, at most. Half: twice the calls of the
 * program; double: a program goes further beyond its target. */
#define RECLAIM_SOFT_MS 10

/* Empty the sheaves, quarantines and empty slabs of all caches. */
void reclaim_caches(void);
/* All caches and, if the flags allow waiting, shrinkers; then return free pages. */
void reclaim_everything(gfp_t flags) __attribute__((cold));
void reclaim_above_soft(gfp_t flags) __attribute__((cold));

/* At the beginning of a slow path, and in the background thread. */
static inline void reclaim_if_above_soft(gfp_t flags)
{
	if (__builtin_expect(page_is_above_soft(), 0) && gfpflags_allow_blocking(flags))
		reclaim_above_soft(flags);
}

#endif
