/* SPDX-License-Identifier: MIT */
/*
 * Slabs to be listed later: each node of a cache has a stack of held slabs, linked through their
 * descriptors.
 *
 * A free that must not wait sets a bit and subtracts. This may make the thread the holder of a
 * slab, which must be listed under a lock. If another thread has that lock, a later call that may
 * wait lists the slab.
 *
 * Invariants
 *  DEFER-E1. Any thread may push a slab that it holds, by compare-exchange. A thread that takes
 *      from a stack takes all of it, by exchange. So there is no ABA problem.
 *  DEFER-E2. A slab on a stack is held and not full. Its objects may be freed meanwhile, but not
 *      taken.
 *  DEFER-E3. While there is a slab on a stack, the cache's flag (MARK_DEFERRED) is set, or is about
 *      to be. So a slow path reads one word, in a line that is rarely written, whatever the number
 *      of nodes.
 *
 * DEFER-E3 depends on the order: a thread sets the flag after it pushes, and clears it before it
 * takes. The other order in either,
 *
 *   set flag                        |       find nothing
 *         clear flag, find nothing  | push, set flag
 *   push                            |       clear flag
 *
 * leaves a slab without a flag. Both change the flag by exchange: setting it is a release, which
 * the exchange that clears it acquires, and so sees the slab; a thread that leaves it set has read
 * it after its push. In a forked child the flag is set
 * again, because a thread that was about to set it may have vanished.
 *
 * Only slab_list_deferred() waits.
 * Callers: src/slab/give.c, src/percpu/.
 */
#ifndef SHEAF_SLAB_DEFER_H
#define SHEAF_SLAB_DEFER_H

#include "os/atomic.h"
#include "slab/marks.h"

/* Push a held slab that is not full. */
void slab_defer(struct slab_cache *cache, struct slab *slab);
/* List all of them. */
void slab_list_deferred(struct slab_cache *cache);
/* In a forked child, by its only thread: set the flag for slabs on the stacks (DEFER-E3). */
void slab_defer_after_fork(struct slab_cache *cache);

static inline bool slab_has_deferred(const struct slab_cache *cache)
{
	return slab_marks(cache) & MARK_DEFERRED;
}

#endif
