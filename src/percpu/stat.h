/* SPDX-License-Identifier: MIT */
/* Events of sheaves and barns: see slab/stat.h. Callers: src/percpu/ and the layers above. */
#ifndef SHEAF_PERCPU_STAT_H
#define SHEAF_PERCPU_STAT_H

#include "slab/stat.h"

/* In order of frequency: words of the second plane are in another cache line. */
#define PERCPU_WORDS(X)                                                                            \
	X(alloc_fastpath)                                                                          \
	X(free_fastpath)                                                                           \
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
	X(rcu_reuse)                                                                               \
	X(sheaf_prefill_fast)                                                                      \
	X(sheaf_return_fast)                                                                       \
	X(sheaf_prefill_slow)                                                                      \
	X(sheaf_prefill_oversize)                                                                  \
	X(sheaf_return_slow)                                                                       \
	X(nolock_fail)                                                                             \
	X(barn_get_prefill)

enum percpu_word {
	STAT_BEFORE_PERCPU = NR_SLAB_WORDS - 1,
	PERCPU_WORDS(STAT_WORD) NR_PERCPU_WORDS,
};

#define PERCPU_EVENTS(X)                                                                           \
	X(alloc_fastpath, STAT_BIT(alloc_fastpath), "objects from this CPU's sheaves")             \
	X(free_fastpath, STAT_BIT(free_fastpath), "objects into this CPU's sheaves")               \
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
	  "allocations that found main and spare empty")                                           \
	X(replace_full_main, STAT_BIT(exchange_full) | STAT_BIT(replace_full_only),                \
	  "frees that found main and spare full")                                                  \
	X(rcu_reuse, STAT_BIT(rcu_reuse), "full sheaves taken after their grace period")           \
	X(sheaf_prefill_fast, STAT_BIT(sheaf_prefill_fast),                                        \
	  "sheaves prefilled from this CPU's spare")                                               \
	X(sheaf_prefill_slow, STAT_BIT(sheaf_prefill_slow),                                        \
	  "sheaves prefilled from a barn or slabs")                                                \
	X(sheaf_prefill_oversize, STAT_BIT(sheaf_prefill_oversize),                                \
	  "sheaves prefilled beyond the capacity")                                                 \
	X(sheaf_return_fast, STAT_BIT(sheaf_return_fast), "prefilled sheaves that became a spare") \
	X(sheaf_return_slow, STAT_BIT(sheaf_return_slow), "prefilled sheaves refilled or flushed") \
	X(nolock_fail, STAT_BIT(nolock_fail), "nolock allocations that returned NULL")

#endif
