/* SPDX-License-Identifier: MIT */
/*
 * Counted events, with the kernel's names: how they are counted, and the events of slabs.
 *
 * Each layer has a list of words, numbered after those of the layer below, and a list of events,
 * which are sums of words. Events that always happen together share a word (exchange_empty: an
 * empty main was exchanged for a full sheaf of the barn). src/cache/events.h has the lists of all
 * layers.
 *
 * Callers: src/slab/ and the layers above.
 */
#ifndef SHEAF_SLAB_STAT_H
#define SHEAF_SLAB_STAT_H

#include "os/atomic.h"
#include "os/counters.h"
#include "slab/slab.h"

/* What the lists pass to their macro X for an event with a word of its own: its name, the words
 * whose sum it is, its text. */
#define STAT_OWN(X, name, text) X(name, UINT64_C(1) << STAT_##name, text)
#define STAT_WORD(X, name, ...) STAT_##name,

#define SLAB_EVENTS(OWN, X)                                                                        \
	OWN(X, alloc_slowpath, "objects straight from slabs")                                      \
	OWN(X, free_slowpath, "objects straight to slabs")                                         \
	OWN(X, free_add_partial, "full slabs that got a free object")                              \
	OWN(X, free_remove_partial, "empty slabs taken off their list")                            \
	OWN(X, alloc_slab, "slabs made of fresh pages")                                            \
	OWN(X, free_slab, "slabs returned as pages")                                               \
	OWN(X, alloc_node_mismatch, "requests for a node that bypassed sheaves")                   \
	OWN(X, order_fallback, "slabs of the fallback order")                                      \
	OWN(X, cmpxchg_double_fail, "lost races for a slab's word")                                \
	OWN(X, nolock_deferred, "slabs that a nolock free left unlisted")

enum slab_word {
	STAT_BEFORE_SLAB = OS_NR_SHOWN - 1,
	SLAB_EVENTS(STAT_WORD, ) STAT_total_objects,
	STAT_slab_bytes,
	STAT_peak_slab_bytes,
	NR_SLAB_WORDS,
};

static inline void stat_add(const struct slab_cache *cache, unsigned int word, uint64_t n)
{
	if (os_unlikely(cache->counted) && n)
		os_count(cache->counted, word, n);
}

/*
 * The cache got slabs of this many bytes, or lost them if the number is negative. The two words are
 * those of threads without a CPU, because a peak belongs to the whole cache. Slabs are rare enough
 * for atomic words.
 */
static inline void stat_slab_bytes(const struct slab_cache *cache, int64_t bytes)
{
	uint64_t now;

	if (os_likely(!cache->counted))
		return;
	now = (uint64_t)bytes +
	      os_fetch_add((uint64_t *)os_counter(cache->counted, STAT_slab_bytes),
			   (uint64_t)bytes);
	/* A forked child counts from 0, and may be below that. */
	os_raise((uint64_t *)os_counter(cache->counted, STAT_peak_slab_bytes), now);
}

/* Exchange a slab's word; on failure *state becomes the value found, and the lost race is
 * counted. */
static inline bool stat_cmpxchg(const struct slab_cache *cache, struct slab *slab, uint64_t *state,
				uint64_t changed)
{
	if (os_cmpxchg(&slab->state, state, changed))
		return true;
	stat_add(cache, STAT_cmpxchg_double_fail, 1);
	return false;
}

#endif
