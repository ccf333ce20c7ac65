/* SPDX-License-Identifier: MIT */
/* Events of sheaves and barns: see slab/stat.h. Callers: src/percpu/ and the layers above. */
#ifndef SHEAF_PERCPU_STAT_H
#define SHEAF_PERCPU_STAT_H

#include "slab/stat.h"

#define STAT_BIT(name) (UINT64_C(1) << STAT_##name)
#define STAT_NO_WORD(...)

#define PERCPU_EVENTS(OWN, X)                                                                      \
	OWN(X, alloc_fastpath, "objects from this CPU's sheaves")                                  \
	OWN(X, free_fastpath, "objects into this CPU's sheaves")                                   \
	OWN(X, sheaf_flush, "objects from sheaves to slabs")                                       \
	OWN(X, sheaf_refill, "objects from slabs into sheaves")                                    \
	OWN(X, sheaf_alloc, "sheaves made")                                                        \
	OWN(X, sheaf_free, "sheaves freed")                                                        \
	X(barn_get,                                                                                \
	  STAT_BIT(exchange_empty) | STAT_BIT(barn_get_only) | STAT_BIT(barn_get_prefill),         \
	  "full sheaves from a barn")                                                              \
	OWN(X, barn_get_fail, "times a barn had no full sheaf")                                    \
	X(barn_put, STAT_BIT(exchange_full) | STAT_BIT(barn_put_only), "full sheaves into a barn") \
	OWN(X, barn_put_fail, "times a barn had no room for a full sheaf")                         \
	OWN(X, barn_get_empty, "empty sheaves from a barn")                                        \
	OWN(X, barn_put_empty, "empty sheaves into a barn")                                        \
	X(barn_replace_empty, STAT_BIT(exchange_empty), "empty sheaves exchanged for full ones")   \
	X(barn_replace_full, STAT_BIT(exchange_full), "full sheaves exchanged for empty ones")     \
	X(replace_empty_main,                                                                      \
	  STAT_BIT(exchange_empty) | STAT_BIT(barn_get_only) | STAT_BIT(barn_get_fail),            \
	  "allocations that found main and spare empty")                                           \
	X(replace_full_main, STAT_BIT(exchange_full) | STAT_BIT(replace_full_only),                \
	  "frees that found main and spare full")                                                  \
	OWN(X, rcu_reuse, "full sheaves taken after their grace period")                           \
	OWN(X, sheaf_prefill_fast, "sheaves prefilled from this CPU's spare")                      \
	OWN(X, sheaf_prefill_slow, "sheaves prefilled from a barn or slabs")                       \
	OWN(X, sheaf_prefill_oversize, "sheaves prefilled beyond the capacity")                    \
	OWN(X, sheaf_return_fast, "prefilled sheaves that became a spare")                         \
	OWN(X, sheaf_return_slow, "prefilled sheaves that went to a barn or slabs")                \
	OWN(X, nolock_fail, "nolock allocations that returned NULL")                               \
	OWN(X, prefill_slot, "objects of prefills from this CPU's sheaves")                        \
	OWN(X, prefill_barn, "objects of prefills from barns")                                     \
	OWN(X, prefill_slab, "objects of prefills from slabs")

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
