/* SPDX-License-Identifier: MIT */
/*
 * The budget of the process: how many bytes of objects the barns of all caches may hold, with the
 * memory of the sheaves themselves.
 *
 * A sheaf counts with the memory of its pointers from when it is made until it is freed, and with
 * all its objects from when it comes into a barn's cell with them until that cell is free. So
 * exchanges of whole sheaves, which keep the number of cells, do not count: an empty sheaf that
 * replaced a full one still counts as full, because the next exchange may bring a full one back.
 * But while more than half of the limit is used, it does not. Each CPU sums up what counts (its
 * part), and adds it to the shared sum from time to time. Slow paths read that sum once for a whole
 * sheaf.
 *
 * Above the limit, barns store no sheaves: objects return to their slabs, and sheaves to the pool,
 * until the sum is no longer above it. Sheaves that a CPU works with are made even then: main,
 * spare and rcu_free, and one for each other node. Retired objects wait in their sheaves, too, and
 * the program may hold prefilled ones. Without these, a cache would allocate objects one by one, or
 * fail. So their objects do not count: otherwise, a few sheaves of large blocks would keep other
 * caches from using their barns. An oversize prefilled sheaf does not count either: all of it is
 * the program's.
 *
 * Invariants
 *  BUDGET-J1. All parts together are the sum, over every sheaf of a cache but oversize ones, of its
 *      memory, and over every cell with BARN_COUNTED (barn.h), of its sheaf's capacity times the
 *      stride of the cache's objects. Sheaves that belong to no cache do not count (src/rcu/any.c).
 *      In a forked child, what vanished threads had in hand still counts, because that memory is
 *      lost.
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

/*
 * The default limit is this part of memory. With 2 GiB for each CPU, every CPU can put 128 KiB of
 * objects (BARN_CPU_BYTES) into the sheaves of 1024 caches; of 512 with half. Double is an eighth
 * of memory, beside the free pages that stay (page/page.h). Budgets of caches grow (flow.c) only
 * while half of the limit is left.
 */
#define BUDGET_PART 16

/* Alone in its line, which many CPUs read. */
struct sheaf_budget {
	intptr_t used;	/* bytes that CPUs have added: may be negative */
	intptr_t limit; /* bytes */
	intptr_t share; /* of a part */
} __attribute__((aligned(64)));

extern struct sheaf_budget sheaf_budget __attribute__((visibility("hidden")));

/* From the option, or as much memory as there is: before the first cache is made, and when
 * os.memory has changed. */
void sheaf_budget_init(void);
void sheaf_budget_set_limit(size_t bytes);
/* The whole sum. Looks at all CPUs. */
size_t sheaf_budget_used(void);
/* In a forked child: `used` again. */
void sheaf_budget_after_fork(void);
/* So many bytes more count, or less. */
void sheaf_budget_add(intptr_t bytes);

/* The objects of a sheaf. */
static inline size_t sheaf_budget_of(const struct sheaf_cache *cache, uint32_t capacity)
{
	return (size_t)capacity * cache->slab.size;
}

/* In a cell, the objects of a sheaf of one capacity counted, and now those of another do (0: no
 * objects). */
static inline void sheaf_budget_change(const struct sheaf_cache *cache, uint32_t before,
				       uint32_t now)
{
	if (before != now)
		sheaf_budget_add((intptr_t)sheaf_budget_of(cache, now) -
				 (intptr_t)sheaf_budget_of(cache, before));
}

/* True if whole sheaves must not be stored now. */
static inline bool sheaf_budget_is_over(void)
{
	return os_load_relaxed(&sheaf_budget.used) > os_load_relaxed(&sheaf_budget.limit);
}

/* True if less than half of it is left. */
static inline bool sheaf_budget_is_short(void)
{
	return os_load_relaxed(&sheaf_budget.used) > os_load_relaxed(&sheaf_budget.limit) / 2;
}

#endif
