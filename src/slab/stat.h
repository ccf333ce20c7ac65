/* SPDX-License-Identifier: MIT */
/*
 * The events that are counted, by the kernel's names.
 *
 * STAT_EVENTS is the one list: statistics in every form, and the file that other processes read, are
 * made from it. What happens together is counted together: a word may be a part of several events'
 * sums (exchange_empty: an empty main was replaced by a full sheaf of the barn, which got the empty
 * one).
 *
 * Callers: src/slab/ and the layers above.
 */
#ifndef SHEAF_SLAB_STAT_H
#define SHEAF_SLAB_STAT_H

#include "os/atomic.h"
#include "os/counters.h"
#include "slab/slab.h"

/* What is counted as such: the rarer, the later, as words of the second plane are elsewhere. */
#define STAT_WORDS(X)                                                                              \
	X(alloc_fastpath)                                                                          \
	X(alloc_slowpath)                                                                          \
	X(free_fastpath)                                                                           \
	X(free_slowpath)                                                                           \
	X(free_add_partial)                                                                        \
	X(free_remove_partial)                                                                     \
	X(alloc_slab)                                                                              \
	X(free_slab)                                                                               \
	X(alloc_node_mismatch)                                                                     \
	X(order_fallback)                                                                          \
	X(cmpxchg_double_fail)                                                                     \
	X(sheaf_flush)                                                                             \
	X(sheaf_refill)                                                                            \
	X(sheaf_alloc)                                                                             \
	X(sheaf_free)                                                                              \
	X(exchange_empty)                                                                          \
	X(exchange_full)                                                                           \
	X(barn_get_only)                                                                           \
	X(barn_get_fail)                                                                           \
	X(barn_put_only)                                                                           \
	X(barn_put_fail)                                                                           \
	X(barn_get_empty)                                                                          \
	X(barn_put_empty)                                                                          \
	X(replace_full_only)                                                                       \
	X(total_objects)                                                                           \
	X(free_rcu_sheaf)                                                                          \
	X(sheaf_prefill_fast)                                                                      \
	X(sheaf_return_fast)                                                                       \
	X(rcu_reuse)                                                                               \
	X(free_rcu_sheaf_fail)                                                                     \
	X(rcu_flush)                                                                               \
	X(rcu_over_limit)                                                                          \
	X(sheaf_prefill_slow)                                                                      \
	X(sheaf_prefill_oversize)                                                                  \
	X(sheaf_return_slow)                                                                       \
	X(nolock_fail)                                                                             \
	X(nolock_deferred)                                                                         \
	X(barn_get_prefill)

#define STAT_WORD(name) STAT_##name,
enum stat_word {
	STAT_MAIN, /* words of the slot's two sheaves, as last seen */
	STAT_SPARE,
	STAT_BASES, /* what they had when they came: main in the low half, spare in the high one */
	STAT_WORDS(STAT_WORD) NR_STAT_WORDS,
};
#undef STAT_WORD

_Static_assert(NR_STAT_WORDS <= OS_WORDS, "counters fit their place");

#define STAT_BIT(name) (UINT64_C(1) << STAT_##name)

/* X(name, the words it is the sum of, what it tells). */
#define STAT_EVENTS(X)                                                                             \
	X(alloc_fastpath, STAT_BIT(alloc_fastpath), "objects from this CPU's sheaves")             \
	X(alloc_slowpath, STAT_BIT(alloc_slowpath), "objects straight from slabs")                 \
	X(free_fastpath, STAT_BIT(free_fastpath), "objects into this CPU's sheaves")               \
	X(free_slowpath, STAT_BIT(free_slowpath), "objects straight to slabs")                     \
	X(free_add_partial, STAT_BIT(free_add_partial), "full slabs that got a free object")       \
	X(free_remove_partial, STAT_BIT(free_remove_partial), "empty slabs taken off their list")  \
	X(alloc_slab, STAT_BIT(alloc_slab), "slabs made of fresh pages")                           \
	X(free_slab, STAT_BIT(free_slab), "slabs given back as pages")                             \
	X(alloc_node_mismatch, STAT_BIT(alloc_node_mismatch),                                      \
	  "requests for a node that sheaves could not serve")                                      \
	X(order_fallback, STAT_BIT(order_fallback), "slabs of the fallback order")                 \
	X(cmpxchg_double_fail, STAT_BIT(cmpxchg_double_fail), "races for a slab's word lost")      \
	X(sheaf_flush, STAT_BIT(sheaf_flush), "objects from sheaves to slabs")                     \
	X(sheaf_refill, STAT_BIT(sheaf_refill), "objects from slabs into sheaves")                 \
	X(sheaf_alloc, STAT_BIT(sheaf_alloc), "sheaves made")                                      \
	X(sheaf_free, STAT_BIT(sheaf_free), "sheaves freed")                                       \
	X(barn_get,                                                                                \
	  STAT_BIT(exchange_empty) | STAT_BIT(barn_get_only) | STAT_BIT(barn_get_prefill),         \
	  "full sheaves from a barn")                                                              \
	X(barn_get_fail, STAT_BIT(barn_get_fail), "times a barn had no full sheaf")                \
	X(barn_put, STAT_BIT(exchange_full) | STAT_BIT(barn_put_only), "full sheaves into a barn") \
	X(barn_put_fail, STAT_BIT(barn_put_fail), "times a barn had no room for a full sheaf")     \
	X(barn_get_empty, STAT_BIT(barn_get_empty), "empty sheaves from a barn")                   \
	X(barn_put_empty, STAT_BIT(barn_put_empty), "empty sheaves into a barn")                   \
	X(barn_replace_empty, STAT_BIT(exchange_empty), "empty sheaves exchanged for full ones")   \
	X(barn_replace_full, STAT_BIT(exchange_full), "full sheaves exchanged for empty ones")     \
	X(replace_empty_main,                                                                      \
	  STAT_BIT(exchange_empty) | STAT_BIT(barn_get_only) | STAT_BIT(barn_get_fail),            \
	  "times an allocation found main and spare empty")                                        \
	X(replace_full_main, STAT_BIT(exchange_full) | STAT_BIT(replace_full_only),                \
	  "times a free found main and spare full")                                                \
	X(free_rcu_sheaf, STAT_BIT(free_rcu_sheaf), "objects retired into a CPU's rcu_free sheaf") \
	X(free_rcu_sheaf_fail, STAT_BIT(free_rcu_sheaf_fail), "objects retired otherwise")         \
	X(rcu_reuse, STAT_BIT(rcu_reuse), "full sheaves taken after their grace period")           \
	X(rcu_flush, STAT_BIT(rcu_flush), "objects given to slabs after their grace period")       \
	X(rcu_over_limit, STAT_BIT(rcu_over_limit), "times pending bytes were above the limit")    \
	X(sheaf_prefill_fast, STAT_BIT(sheaf_prefill_fast),                                        \
	  "sheaves prefilled from this CPU's spare")                                               \
	X(sheaf_prefill_slow, STAT_BIT(sheaf_prefill_slow),                                        \
	  "sheaves prefilled from a barn or slabs")                                                \
	X(sheaf_prefill_oversize, STAT_BIT(sheaf_prefill_oversize),                                \
	  "sheaves prefilled beyond the capacity")                                                 \
	X(sheaf_return_fast, STAT_BIT(sheaf_return_fast), "prefilled sheaves that became a spare") \
	X(sheaf_return_slow, STAT_BIT(sheaf_return_slow), "prefilled sheaves returned otherwise")  \
	X(nolock_fail, STAT_BIT(nolock_fail), "nolock allocations that returned NULL")             \
	X(nolock_deferred, STAT_BIT(nolock_deferred), "objects that a nolock free queued")

static inline void stat_add(const struct slab_cache *cache, enum stat_word word, uint64_t n)
{
	if (__builtin_expect(cache->counted != NULL, 0) && n)
		os_count(cache->counted, word, n);
}

/* Exchange a slab's word; on failure *state is what was found, and the race lost is counted. */
static inline bool stat_cmpxchg(const struct slab_cache *cache, struct slab *slab, uint64_t *state,
				uint64_t changed)
{
	if (os_cmpxchg(&slab->state, state, changed))
		return true;
	stat_add(cache, STAT_cmpxchg_double_fail, 1);
	return false;
}

#endif
