/* SPDX-License-Identifier: MIT */
/*
 * Reclaim: return free memory because a limit requires it, or memory has run out.
 *
 *   above the soft limit   free pages do not wait (page/limit.h). A round of housekeeping empties
 *                          one cache after the other. Calls that may reclaim, and the background
 *                          thread, ask shrinkers for a part of their objects.
 *   no memory              (the cache's limit, the hard limit, or the system) a call that may
 *                          reclaim empties its own cache and tries again; then what shrinkers can
 *                          free, and all caches, and tries again. At the cache's limit other caches
 *                          are left alone: they cannot help.
 *
 * A cache is emptied for this if its marks say that something may be free there, or that a grace
 * period may have passed (slab/drain_marks.h). After the first time, only caches that were marked
 * since are visited, unless these were more than 64 or a grace period has passed.
 *
 * Invariants
 *  RECLAIM-R1. Shrinkers run only in calls that may reclaim, in sheaf_trim(), sheaf_set_limits()
 *      and in the background thread: frees and GFP_NOWAIT never call the program.
 *  RECLAIM-R2. No call that may reclaim returns NULL if draining every cache and returning all free
 *      pages, at a moment during the call, would have served it. So it waits for drains in
 *      progress, for slabs that other threads examine, and for pages that they are returning, and
 *      then tries once more, even if it found nothing itself.
 *
 * Locks: those of kmem_cache_shrink(). Callers: src/cache/, src/kmalloc/; with no lock held, and
 * nothing in hand but what the program will get.
 */
#ifndef SHEAF_CACHE_RECLAIM_H
#define SHEAF_CACHE_RECLAIM_H

#include <sheaf/slab.h>

#include "os/compiler.h"
#include "page/limit.h"

/* How often shrinkers are asked above the soft limit, at most. Half: twice the calls of the
 * program; double: a program goes further beyond its target. */
#define RECLAIM_SOFT_MS 10

/* Free what shrinkers have, if the flags allow waiting; then what this cache has, at whose own
 * limit others cannot help, or (NULL) all marked caches and free pages. Returns false if there was
 * nothing. */
bool reclaim_everything(struct kmem_cache *s, gfp_t flags) OS_COLD;
/* Called after `tries` failures to allocate from this cache, or (NULL) pages: free what is
 * possible, and return true if the caller should try again. */
bool reclaim_for(struct kmem_cache *s, gfp_t flags, int tries) OS_COLD;
/* Free the objects of all caches whose grace period has passed. Returns false if there are none. */
bool reclaim_passed(void) OS_COLD;
/* Free the objects of this cache, or (NULL) all, that are in quarantine; if the caller may wait, or
 * no drain runs, other drains wait meanwhile (RECLAIM-R2). */
void reclaim_quarantine(struct kmem_cache *s, bool wait);
/* Would the cache's own limit refuse its smallest slab now? */
bool reclaim_own_limit_refuses(const struct kmem_cache *s);
/* sheaf_trim() without shrinkers; returns the bytes that went back to the system. */
size_t reclaim_free_memory(size_t keep) OS_COLD;
void reclaim_above_soft(gfp_t flags) OS_COLD;

/* At the beginning of a slow path, and in the background thread. */
static inline void reclaim_if_above_soft(gfp_t flags)
{
	if (os_unlikely(page_is_above_soft()) && gfpflags_allow_blocking(flags))
		reclaim_above_soft(flags);
}

#endif
