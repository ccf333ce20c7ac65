/* SPDX-License-Identifier: MIT */
/*
 * The budget of the process: how many bytes of objects the sheaves of all caches may hold.
 *
 * A sheaf counts as full from the moment when it is made until it is freed. So exchanges of whole
 * sheaves, which keep their number, do not count: the one shared line is written only when a sheaf
 * is made or freed. Slow paths read it once for a whole sheaf.
 *
 * Above the limit, barns store no sheaves: objects return to their slabs, and sheaves to the pool,
 * until the sum is no longer above it. Sheaves that a CPU works with are made all the same: main,
 * spare and rcu_free, and one for each other node. Retired objects wait in their sheaves, too, and
 * the program may hold prefilled ones. Without these, a cache would allocate objects one by one, or
 * fail. An oversize prefilled sheaf does not count: its objects are the program's, as if it had
 * allocated them in bulk, and it must not keep other caches from their barns.
 *
 * Invariants
 *  J1. `used` is the sum, over every sheaf of a cache but oversize ones, of its capacity times the
 *      stride of the cache's objects. Sheaves that belong to no cache do not count (src/rcu/any.c).
 *      In a forked child, what vanished threads had in hand still counts, because that memory is
 *      lost.
 *  J2. While `used` is above the limit, no sheaf enters a barn but in the place of one that leaves
 *      it, and allocations free the sheaves that they empty (but for signal handlers: nolock.h).
 *
 * Locks: none. Callers: src/percpu/; src/cache/ to set the limit; src/stats/.
 */
#ifndef SHEAF_PERCPU_BUDGET_H
#define SHEAF_PERCPU_BUDGET_H

#include "os/atomic.h"
#include "percpu/sheaf.h"

/*
 * The default limit is this part of memory. With 2 GiB for each CPU, every CPU can put 128 KiB of
 * objects (BARN_CPU_BYTES) into the sheaves of 1024 caches; of 512 with half. Double is an eighth
 * of memory, beside the free pages that stay (page/page.h). Budgets of caches grow (flow.c) only
 * while half of the limit is left.
 */
#define BUDGET_PART 16

/* Alone in its line, which many CPUs read. */
struct sheaf_budget {
	size_t used, limit; /* bytes */
} __attribute__((aligned(64)));

extern struct sheaf_budget sheaf_budget __attribute__((visibility("hidden")));

/* Read the option, or find out how much memory there is: before the first cache is made. */
void sheaf_budget_init(void);

static inline size_t sheaf_budget_of(const struct sheaf_cache *cache, uint32_t capacity)
{
	return (size_t)capacity * cache->slab.size;
}

/* A sheaf of this capacity was made; is about to be freed. */
static inline void sheaf_budget_charge(const struct sheaf_cache *cache, uint32_t capacity)
{
	os_fetch_add_relaxed(&sheaf_budget.used, sheaf_budget_of(cache, capacity));
}

static inline void sheaf_budget_uncharge(const struct sheaf_cache *cache, uint32_t capacity)
{
	os_fetch_sub(&sheaf_budget.used, sheaf_budget_of(cache, capacity));
}

/* True if whole sheaves must not be stored now. */
static inline bool sheaf_budget_is_over(void)
{
	return os_load_relaxed(&sheaf_budget.used) > os_load_relaxed(&sheaf_budget.limit);
}

#endif
