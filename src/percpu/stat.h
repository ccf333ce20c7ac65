/* SPDX-License-Identifier: MIT */
/* Events of sheaves and barns: see slab/stat.h. Callers: src/percpu/ and the layers above. */
#ifndef SHEAF_PERCPU_STAT_H
#define SHEAF_PERCPU_STAT_H

#include "slab/stat.h"

/* OWN(): an event with a word of its own; SUM(): a sum of words. */
#define PERCPU_EVENTS(OWN, SUM)                                                                    \
	OWN(alloc_fastpath, STAT_BIT(alloc_fastpath), "objects from this CPU's sheaves")           \
	OWN(free_fastpath, STAT_BIT(free_fastpath), "objects into this CPU's sheaves")             \
	OWN(sheaf_flush, STAT_BIT(sheaf_flush), "objects from sheaves to slabs")                   \
	OWN(sheaf_refill, STAT_BIT(sheaf_refill), "objects from slabs into sheaves")               \
	OWN(sheaf_alloc, STAT_BIT(sheaf_alloc), "sheaves made")                                    \
	OWN(sheaf_free, STAT_BIT(sheaf_free), "sheaves freed")                                     \
	SUM(barn_get,                                                                              \
	    STAT_BIT(exchange_empty) | STAT_BIT(barn_get_only) | STAT_BIT(barn_get_prefill),       \
	    "full sheaves from a barn")                                                            \
	OWN(barn_get_fail, STAT_BIT(barn_get_fail), "times a barn had no full sheaf")              \
	SUM(barn_put, STAT_BIT(exchange_full) | STAT_BIT(barn_put_only),                           \
	    "full sheaves into a barn")                                                            \
	OWN(barn_put_fail, STAT_BIT(barn_put_fail), "times a barn had no room for a full sheaf")   \
	OWN(barn_get_empty, STAT_BIT(barn_get_empty), "empty sheaves from a barn")                 \
	OWN(barn_put_empty, STAT_BIT(barn_put_empty), "empty sheaves into a barn")                 \
	SUM(barn_replace_empty, STAT_BIT(exchange_empty), "empty sheaves exchanged for full ones") \
	SUM(barn_replace_full, STAT_BIT(exchange_full), "full sheaves exchanged for empty ones")   \
	SUM(replace_empty_main,                                                                    \
	    STAT_BIT(exchange_empty) | STAT_BIT(barn_get_only) | STAT_BIT(barn_get_fail),          \
	    "allocations that found main and spare empty")                                         \
	SUM(replace_full_main, STAT_BIT(exchange_full) | STAT_BIT(replace_full_only),              \
	    "frees that found main and spare full")                                                \
	OWN(rcu_reuse, STAT_BIT(rcu_reuse), "full sheaves taken after their grace period")         \
	OWN(sheaf_prefill_fast, STAT_BIT(sheaf_prefill_fast),                                      \
	    "sheaves prefilled from this CPU's spare")                                             \
	OWN(sheaf_prefill_slow, STAT_BIT(sheaf_prefill_slow),                                      \
	    "sheaves prefilled from a barn or slabs")                                              \
	OWN(sheaf_prefill_oversize, STAT_BIT(sheaf_prefill_oversize),                              \
	    "sheaves prefilled beyond the capacity")                                               \
	OWN(sheaf_return_fast, STAT_BIT(sheaf_return_fast),                                        \
	    "prefilled sheaves that became a spare")                                               \
	OWN(sheaf_return_slow, STAT_BIT(sheaf_return_slow),                                        \
	    "prefilled sheaves refilled or flushed")                                               \
	OWN(nolock_fail, STAT_BIT(nolock_fail), "nolock allocations that returned NULL")

#define STAT_NO_WORD(...)

/* In order of frequency: words of the second plane are in another cache line. */
enum percpu_word {
	STAT_exchange_empty = NR_SLAB_WORDS,
	STAT_exchange_full,
	STAT_barn_get_only,
	STAT_barn_put_only,
	STAT_replace_full_only,
	STAT_barn_get_prefill,
	PERCPU_EVENTS(STAT_WORD, STAT_NO_WORD) NR_PERCPU_WORDS,
};

#endif
