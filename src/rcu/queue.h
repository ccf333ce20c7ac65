/* SPDX-License-Identifier: MIT */
/*
 * Queues of sheaves that wait for a grace period.
 *
 * A queue has two lists: of sheaves that wait, in the order of their numbers, and of those whose
 * number has passed, the newest on top. Whoever looks for one moves what has passed from the one to
 * the other.
 *
 * Invariants
 *  Q1. A sheaf in a queue has at least one object.
 *  Q2. The number of the first one that waits is in `first_number` too, GRACE_NEVER if none waits.
 *  Q3. `least` is the smallest n_passed since it was last set to n_passed.
 *  Q4. A queue's lock is held for a few sheaves at most, however long its lists are: who retires an
 *      object may need it, and must not wait. So objects are counted as they come and go.
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
	struct sheaf *first, *last;   /* that wait, by `next` */
	struct sheaf *top, *bottom;   /* that have passed, by `next` downwards and `prev` upwards */
	uint32_t n_waiting, n_passed; /* objects */
	uint32_t least, locked_by_fork;
};

_Static_assert(sizeof(struct rcu_queue) == 64, "queues do not share a line");

void rcu_queue_init(struct rcu_queue *queue);
/* Append; number must not be below others that are there. */
void rcu_queue_add(struct rcu_queue *queue, struct sheaf *sheaf, struct grace *grace);
enum rcu_queue_end {
	RCU_NEWEST,
	RCU_OLDEST,
};
/* A sheaf that has passed now that numbers up to `done` have; or NULL. */
struct sheaf *rcu_queue_take(struct rcu_queue *queue, uint64_t done, enum rcu_queue_end end);
/* What has passed is among what has. */
void rcu_queue_settle(struct rcu_queue *queue, uint64_t done);
/* How many objects that have passed were not needed since the last call. */
uint32_t rcu_queue_unused(struct rcu_queue *queue, uint64_t done);
bool rcu_queue_is_empty(const struct rcu_queue *queue);

#endif
