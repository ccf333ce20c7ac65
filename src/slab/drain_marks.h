/* SPDX-License-Identifier: MIT */
/*
 * Marks: where a cache may have free objects that a drain would return to their slabs or to the
 * system.
 *
 * An allocation that fails at a limit must not miss them, and must not drain caches in which
 * nothing was freed. So each cache has a word with a bit for each such place. Slow paths read this
 * word anyway (MARK_DEFERRED), and write it only if the bit is missing: once after a drain.
 *
 *   MARK_DEFERRED  held slabs are on the stack of a node: below
 *   MARK_EMPTY     a node keeps an empty slab, or lists one that a nolock free emptied
 *   MARK_SHEAVES   a slot or a barn has a sheaf
 *   MARK_RETIRED   a sheaf was queued to wait for a grace period
 *
 * Invariants
 *  MARKS-F1. Only a drain clears bits, before it looks into those places; it keeps other drains
 *      away (OS_RANK_DRAIN) until what it found is free. So a bit that is missing means: nothing is
 *      there, or a drain has it. Slow paths, too, clear MARK_DEFERRED, and list the slabs; they set
 *      MARK_SHEAVES before that, and a drain waits for them.
 *  MARKS-F2. A thread sets MARK_SHEAVES while it shows a sheaf in hand, and before it puts it into
 *      a slot or a barn. A drain that cleared the bit before that waits for the thread, which
 *      cannot put the sheaf into a slot meanwhile. No drain waits for a thread that returns a
 *      prefilled sheaf, so it sets the bit afterwards, before its call returns (percpu/prefill.c).
 *      A forked child sets it for the sheaves that it finds, because that thread may have vanished.
 *  MARKS-F3. The other bits are set after the place has something; MARK_EMPTY under the node's
 *      lock.
 *  MARKS-F4. `slab_marked` counts each bit that is set, before and after: if both counts are equal,
 *      and as they were, no bit was set in between. One count is not enough: beside a thread that
 *      has set a bit and not yet counted it, others find the bit set, free, and end. A free that
 *      empties a slab without its node's lock begins to count before that: if a fork lets its
 *      thread vanish in between, the child looks for the slab.
 *  MARKS-F5. The cache of each of the last MARK_LAST bits is known by the bit's number, so that a
 *      thread that knows what was set before visits only those caches. The number is taken first,
 *      then the cache is stored: a reader that finds a later number taken knows that the place may
 *      have another cache. A cache that ends takes itself out.
 *
 * Callers: src/slab/, src/percpu/, src/rcu/, src/cache/.
 */
#ifndef SHEAF_SLAB_DRAIN_MARKS_H
#define SHEAF_SLAB_DRAIN_MARKS_H

#include "os/atomic.h"
#include "slab/slab.h"

#define MARK_DEFERRED 1u
#define MARK_EMPTY    2u
#define MARK_SHEAVES  4u
#define MARK_RETIRED  8u

#define MARK_LAST 64

/* Bits in all caches: how many threads began to set, and how many they set, in a line of their own;
 * and of which caches. */
struct slab_marked {
	uint64_t begun, n;
	struct slab_cache *of[MARK_LAST] __attribute__((aligned(64)));
} __attribute__((aligned(64)));

extern struct slab_marked slab_marked;

/* Set it, and count that. */
void slab_mark_missing(struct slab_cache *cache, unsigned int bit) OS_COLD;
/* In a forked child, by its only thread: those that vanished threads began count. Returns false if
 * there are none. */
bool slab_marked_after_fork(void);

/* The cache of the bit with this number; NULL: it ended, or *lost: the place has another one. */
struct slab_cache *slab_marked_cache(uint64_t number, bool *lost);
/* The cache ends: no bit of it is set any more. */
void slab_forget_marked(struct slab_cache *cache);

/* Around a change after which a bit is set. */
static inline void slab_begin_mark(struct slab_cache *cache)
{
	uint64_t number = os_fetch_add(&slab_marked.begun, 1);

	os_order_rmw();
	os_store_release(&slab_marked.of[number % MARK_LAST], cache);
}

static inline void slab_end_mark(void)
{
	os_fetch_add(&slab_marked.n, 1);
}

static inline void slab_mark(struct slab_cache *cache, unsigned int bit)
{
	/* What the caller did before is visible to a drain that clears the bit after this. */
	os_order_rmw();
	if (os_unlikely(!(os_load_relaxed(&cache->marks) & bit)))
		slab_mark_missing(cache, bit);
}

/* In a drain, before it looks. */
static inline void slab_clear(struct slab_cache *cache, unsigned int bit)
{
	os_fetch_and(&cache->marks, (uint16_t)~bit);
	os_order_rmw();
}

/* Is a thread about to set a bit, or to count it? For a caller that has read slab_marked.n. */
static inline bool slab_is_marking(uint64_t n)
{
	return os_load_relaxed(&slab_marked.begun) != n;
}

static inline unsigned int slab_marks(const struct slab_cache *cache)
{
	return os_load_relaxed(&cache->marks);
}

/*
 * --- defer.c -----------------------------------------------------------------------------------
 */

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
 * it after its push. In a forked child the flag is set again, because a thread that was about to
 * set it may have vanished.
 *
 * Only slab_list_deferred() waits.
 */

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
