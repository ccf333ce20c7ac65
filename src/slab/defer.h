/* SPDX-License-Identifier: MIT */
/*
 * Objects that slab_give_try() could not put back: each node of a cache has a list of those, linked through
 * the place of their free pointers.
 *
 * Invariants
 *  E1. Anyone may push an object, by compare-exchange; who takes from a list takes all of it, by
 *      exchange. Hence no ABA.
 *  E2. A deferred object is free, and its slab counts it as in use.
 *  E3. Links are mixed like those of freelists (freelist.h), and looked at before they are followed.
 *  E4. While there is an object on a list, the cache's flag is set, or is about to be. So a slow path reads
 *      one word, in a line that is rarely written, whatever the number of nodes.
 *
 * E4 hangs on the order: who pushes sets the flag after that, and who takes clears it before. The other
 * way round in either,
 *
 *   set flag                        |       find nothing
 *         clear flag, find nothing  | push, set flag
 *   push                            |       clear flag
 *
 * leave an object without a flag. Both change the flag by exchange: each of those that set it before
 * it is cleared is a release that the clearing acquires, and its object is seen.
 * In a forked child whoever was about to set it has vanished: it is set again there.
 *
 * Nothing here waits but slab_give_deferred().
 * Callers: src/percpu/, src/cache/nolock.c.
 */
#ifndef SHEAF_SLAB_DEFER_H
#define SHEAF_SLAB_DEFER_H

#include "os/atomic.h"
#include "slab/slab.h"

/* Leave an object that slab_give_try() could not put back for slab_give_deferred(). */
void slab_defer(struct slab_cache *cache, void *object);
/* Put all of them back. */
void slab_give_deferred(struct slab_cache *cache);
/* In a forked child, alone: set the flag for what is on the lists (E4). */
void slab_defer_after_fork(struct slab_cache *cache);

static inline bool slab_has_deferred(const struct slab_cache *cache)
{
	return os_load_relaxed(&cache->deferred);
}

#endif
