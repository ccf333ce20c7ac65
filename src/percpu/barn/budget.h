/* SPDX-License-Identifier: MIT */
/*
 * The budget of the process: how many bytes of objects the sheaves of all caches may hold.
 *
 * A sheaf counts with all objects for which it has room, from when it is made until it is freed,
 * full or empty: the next exchange may fill it. So exchanges, which make and free no sheaf, count
 * nothing. Each CPU sums up what counts (its part), and adds it to the shared sum from time to
 * time. Slow paths read that sum once for a whole sheaf.
 *
 * Above the limit, barns store no sheaves: objects return to their slabs, and sheaves to the pool,
 * until the sum is no longer above it; and housekeeping empties caches that are not in use
 * (cache/passes.c). Sheaves that a CPU works with are made even then: main, spare and rcu_free, and
 * one for each other node. Retired objects wait in their sheaves, too, and the program may hold
 * prefilled ones. Without these, a cache would allocate objects one by one, or fail. An oversize
 * prefilled sheaf does not count: all of it is the program's.
 *
 * Invariants
 *  BUDGET-J1. All parts together are the sum, over every sheaf of a cache but oversize ones, of its
 *      capacity times the stride of the cache's objects. Sheaves that belong to no cache do not
 *      count (src/rcu/any.c). In a forked child, what vanished threads had in hand still counts,
 *      because that memory is lost.
 *  BUDGET-J2. A call that finds `used` above the limit puts no sheaf into a barn, and an allocation
 *      frees the sheaf that it empties (but for signal handlers: percpu.h).
 *  BUDGET-J3. Except for a moment, `used` is what CPUs have added of their parts; a thread that
 *      vanishes in that moment leaves a wrong sum to a forked child, which adds up again. Except
 *      for a moment, what a part has not yet added is between -share and `share`: together a
 *      sixteenth of the limit at most.
 *
 * Locks: none. Callers: src/percpu/; src/cache/ to set the limit; src/stats/.
 */
#ifndef SHEAF_PERCPU_BUDGET_H
#define SHEAF_PERCPU_BUDGET_H

#include "os/atomic.h"
#include "percpu/sheaf.h"

/* Alone in its line, which many CPUs read. */
struct sheaf_budget {
	intptr_t used;	 /* bytes that CPUs have added: may be negative */
	intptr_t limit;	 /* bytes */
	intptr_t share;	 /* of a part */
	uint32_t set_at; /* the limit, in ms */
} __attribute__((aligned(64)));

extern struct sheaf_budget sheaf_budget __attribute__((visibility("hidden")));

/* Before the first cache is made. False: no memory. */
bool sheaf_budget_init(void);
/* The limit is page_bound() of now, unless the option gives one. */
void sheaf_budget_follow(void);
void sheaf_budget_set_limit(size_t bytes);
/* The whole sum. Looks at all CPUs. */
size_t sheaf_budget_used(void);
/* In a forked child: `used` again. */
void sheaf_budget_after_fork(void);
/* So many bytes more count, or less. */
void sheaf_budget_add(intptr_t bytes);

/* The objects for which a sheaf of the cache has room. */
static inline intptr_t sheaf_budget_of(const struct sheaf_cache *cache, uint32_t capacity)
{
	return (intptr_t)((size_t)capacity * cache->slab.size);
}

/* True if whole sheaves must not be stored now. */
bool sheaf_budget_is_over_now(void) OS_COLD;
static inline bool sheaf_budget_is_over(void)
{
	return os_unlikely(os_load_relaxed(&sheaf_budget.used) >
			   os_load_relaxed(&sheaf_budget.limit)) &&
	       sheaf_budget_is_over_now();
}

/* True if less than half of it is left. */
static inline bool sheaf_budget_is_short(void)
{
	return os_load_relaxed(&sheaf_budget.used) > os_load_relaxed(&sheaf_budget.limit) / 2;
}

#endif
