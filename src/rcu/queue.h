/* SPDX-License-Identifier: MIT */
/*
 * Queues of sheaves that wait for a grace period.
 *
 * A queue has two lists: sheaves that wait, in the order of their numbers, and sheaves whose number
 * has passed, the newest on top. A thread that looks for a sheaf moves those that have passed from
 * the first list to the second.
 *
 * Invariants
 *  QUEUE-Q1. A sheaf in a queue has at least one object.
 *  QUEUE-Q2. `first_number` is the number of the first waiting sheaf, or GRACE_NEVER if none waits.
 *  QUEUE-Q3. `least` is the smallest n_passed since it was last set to n_passed, and `taken` the
 *      number of objects that allocations took since then.
 *  QUEUE-Q4. A thread holds a queue's lock while it moves a few sheaves at most, however long the
 *      lists are, because a thread that retires an object may need the lock and must not wait. So
 *      objects are counted as they are added and removed.
 *
 * Locks: OS_RANK_QUEUE, one for each queue. Callers: src/rcu/.
 */
#ifndef SHEAF_RCU_QUEUE_H
#define SHEAF_RCU_QUEUE_H

#include "grace/grace.h"
#include "percpu/sheaf.h"

struct rcu_queue {
	struct os_lock lock;
	uint64_t first_number;
	struct sheaf *first, *last; /* waiting, linked by `next` */
	/* Passed, linked by `next` downwards and `prev` upwards; the top's prev is the bottom. */
	struct sheaf *top;
	uint32_t n_waiting, n_passed; /* objects */
	uint32_t least, taken;
	uint32_t locked_by_fork;
	uint32_t next; /* where its rows' next search of other queues begins: see after_grace.c */
};

_Static_assert(sizeof(struct rcu_queue) == 64, "queues do not share a line");

void rcu_queue_init(struct rcu_queue *queue, unsigned int next);
/* Append a sheaf; its number must not be below the others'. */
void rcu_queue_add(struct rcu_queue *queue, struct sheaf *sheaf, struct grace *grace);
/*
 * Take a sheaf that has passed when numbers up to `done` have passed; or return NULL. The oldest,
 * if it was queued before this time (grace_last_start()); else the newest. Without `wait`, NULL if
 * another thread has the lock.
 */
#define RCU_NEWEST 0
#define RCU_OLDEST UINT32_MAX
struct sheaf *rcu_queue_take(struct rcu_queue *queue, uint64_t done, uint32_t before, bool wait);
/* Move sheaves that have passed to the list of those that have. */
void rcu_queue_settle(struct rcu_queue *queue, uint64_t done);
/* The number of passed objects that were not needed since the last call. */
uint32_t rcu_queue_unused(struct rcu_queue *queue, uint64_t done);
/* The number of passed objects beyond those that allocations took since then. */
uint32_t rcu_queue_beyond_use(struct rcu_queue *queue, uint64_t done);
bool rcu_queue_is_empty(const struct rcu_queue *queue);

#endif
