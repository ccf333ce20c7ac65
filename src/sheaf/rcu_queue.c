/* SPDX-License-Identifier: MIT */
/* Queues of sheaves that wait for a grace period; see rcu_free.h. */
#include "os/machine.h"
#include "sheaf/rcu_free.h"

void rcu_queue_init(struct rcu_queue *queue)
{
	os_lock_init(&queue->lock, OS_RANK_QUEUE);
	queue->first_number = GRACE_NEVER;
}

void rcu_queue_add(struct rcu_queue *queue, struct sheaf *sheaf, struct grace *grace)
{
	sheaf->next = NULL;
	os_lock(&queue->lock);
	/* Under the lock, so that numbers only rise. */
	sheaf->number = grace_now(grace);
	if (queue->first) {
		queue->last->next = sheaf;
	} else {
		queue->first = sheaf;
		os_store_relaxed(&queue->first_number, sheaf->number);
	}
	queue->last = sheaf;
	os_store_relaxed(&queue->n, queue->n + 1);
	os_unlock(&queue->lock);
}

struct sheaf *rcu_queue_take(struct rcu_queue *queue, uint64_t number)
{
	struct sheaf *sheaf = NULL;

	if (os_load_relaxed(&queue->first_number) > number)
		return NULL;
	os_lock(&queue->lock);
	if (queue->first_number <= number) {
		sheaf = queue->first;
		queue->first = sheaf->next;
		os_store_relaxed(&queue->n, queue->n - 1);
		os_store_relaxed(&queue->first_number,
				 queue->first ? queue->first->number : GRACE_NEVER);
	}
	os_unlock(&queue->lock);
	return sheaf;
}

void rcu_queue_lock_for_fork(struct rcu_queue *queue)
{
	/* Many locks of one rank, so by try-lock. */
	while (!os_trylock(&queue->lock))
		os_yield();
	queue->locked_by_fork = 1;
}

void rcu_queue_unlock_after_fork(struct rcu_queue *queue)
{
	if (!queue->locked_by_fork)
		return;
	queue->locked_by_fork = 0;
	os_unlock(&queue->lock);
}
