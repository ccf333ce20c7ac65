/* SPDX-License-Identifier: MIT */
/*
 * Slabs to be listed later: each node of a cache has a stack of held slabs, linked through their
 * descriptors.
 *
 * A free without waiting sets a bit and subtracts. If that makes it the holder of a slab, which
 * must be listed under a lock, and somebody has that lock, it leaves that to a call that may wait.
 *
 * Invariants
 *  E1. Anyone may push a slab it holds, by compare-exchange; who takes from a stack takes all of
 *      it, by exchange. Hence no ABA.
 *  E2. A slab on a stack is held and not full. Its objects may be freed meanwhile, and nobody takes
 *      any.
 *  E3. While there is a slab on a stack, the cache's flag is set, or is about to be. So a slow path
 *      reads one word, in a line that is rarely written, whatever the number of nodes.
 *
 * E3 depends on the order: who pushes sets the flag after that, and who takes clears it before. The
 * other way round in either,
 *
 *   set flag                        |       find nothing
 *         clear flag, find nothing  | push, set flag
 *   push                            |       clear flag
 *
 * leave a slab without a flag. Both change the flag by exchange: each of those that set it before
 * it is cleared is a release that the clearing acquires, and its slab is seen.
 * In a forked child whoever was about to set it has vanished: it is set again there.
 *
 * Nothing here waits but slab_list_deferred().
 * Callers: src/slab/give.c, src/percpu/.
 */
#ifndef SHEAF_SLAB_DEFER_H
#define SHEAF_SLAB_DEFER_H

#include "os/atomic.h"
#include "slab/slab.h"

/* Push a held slab that is not full. */
void slab_defer(struct slab_cache *cache, struct slab *slab);
/* List all of them. */
void slab_list_deferred(struct slab_cache *cache);
/* In a forked child, alone: set the flag for what is on the stacks (E3). */
void slab_defer_after_fork(struct slab_cache *cache);

static inline bool slab_has_deferred(const struct slab_cache *cache)
{
	return os_load_relaxed(&cache->deferred);
}

#endif
