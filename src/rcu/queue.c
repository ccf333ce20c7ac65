/* SPDX-License-Identifier: MIT */
/* Queues of sheaves; see queue.h. */
#include "rcu/queue.h"

#include "os/assert.h"
#include "os/machine.h"

/*
 * Sheaves moved with the lock held. A thread that retires objects may wait for that many moves:
 * with no bound, 855 of the simulator's steps for 25,600 objects instead of 9. With fewer, an
 * allocation finds the newest sheaf later when many have passed together.
 */
#define MOVE_MOST 32

void rcu_queue_init(struct rcu_queue *queue, unsigned int next)
{
	os_lock_init(&queue->lock, OS_RANK_QUEUE);
	queue->next = next;
	queue->first_number = GRACE_NEVER;
}

/* QUEUE-Q1, QUEUE-Q2, QUEUE-Q3, with the lock held. */
static __attribute__((unused)) bool queue_is_right(const struct rcu_queue *queue)
{
	return queue->first_number == (queue->first ? queue->first->number : GRACE_NEVER) &&
	       !queue->first == !queue->n_waiting && !queue->top == !queue->n_passed &&
	       (!queue->top || !queue->top->prev->next) && queue->least <= queue->n_passed;
}

static void unlock_queue(struct rcu_queue *queue)
{
	os_assert(queue_is_right(queue)); /* QUEUE-Q1, QUEUE-Q2, QUEUE-Q3 */
	os_unlock(&queue->lock);
}

void rcu_queue_add(struct rcu_queue *queue, struct sheaf *sheaf, struct grace *grace)
{
	/* QUEUE-Q1 */
	os_assert(sheaf_size(sheaf) && sheaf_size(sheaf) <= sheaf_room(sheaf));
	sheaf->next = NULL;
	os_lock(&queue->lock);
	/* Under the lock, so that numbers only rise. */
	os_store_relaxed(&sheaf->number, grace_now(grace));
	/* RCU_FREE-U1, GRACE-G1: no number in the queue is larger, so none passes too early. */
	os_assert(!queue->first || (queue->last->number <= sheaf->number && !queue->last->next));
	if (queue->first) {
		queue->last->next = sheaf;
	} else {
		queue->first = sheaf;
		os_store_relaxed(&queue->first_number, sheaf->number);
	}
	queue->last = sheaf;
	os_store_relaxed(&queue->n_waiting, queue->n_waiting + sheaf_size(sheaf));
	unlock_queue(queue);
}

static void push_sheaf(struct rcu_queue *queue, struct sheaf *sheaf)
{
	sheaf->next = queue->top;
	os_store_relaxed(&sheaf->prev, queue->top ? queue->top->prev : sheaf);
	if (queue->top)
		os_store_relaxed(&queue->top->prev, sheaf);
	queue->top = sheaf;
	os_store_relaxed(&queue->n_waiting, queue->n_waiting - sheaf_size(sheaf));
	os_store_relaxed(&queue->n_passed, queue->n_passed + sheaf_size(sheaf));
}

/*
 * With the lock held: move sheaves that have passed to the top, but not all of them together
 * (QUEUE-Q4).
 */
static void move_passed(struct rcu_queue *queue, uint64_t done)
{
	struct sheaf *sheaf = queue->first, *next;

	if (queue->first_number > done)
		return;
	for (int n = 0; n < MOVE_MOST && sheaf && sheaf->number <= done; n++, sheaf = next) {
		next = sheaf->next;
		push_sheaf(queue, sheaf);
	}
	/* RCU_FREE-U1: what waits behind those that have passed stays. */
	os_assert(!sheaf || sheaf->number >= queue->first_number);
	queue->first = sheaf;
	os_store_release(&queue->first_number, sheaf ? sheaf->number : GRACE_NEVER);
}

/* The top, or the bottom. */
static void take_out(struct rcu_queue *queue, struct sheaf *sheaf)
{
	uint32_t n = queue->n_passed - sheaf_size(sheaf);

	if (sheaf == queue->top)
		queue->top = sheaf->next;
	else
		sheaf->prev->next = NULL;
	if (queue->top)
		os_store_relaxed(&queue->top->prev, sheaf->prev);
	/* SHEAF-H1: nothing leads to it now. */
	os_assert(!queue->top || (queue->top != sheaf && queue->top->prev != sheaf));
	os_store_relaxed(&queue->n_passed, n);
	if (n < queue->least)
		queue->least = n;
}

static bool has_none(const struct rcu_queue *queue, uint64_t done)
{
	/* In this order: a sheaf that passes in between is seen. */
	return os_load_acquire(&queue->first_number) > done && !os_load_relaxed(&queue->n_passed);
}

struct sheaf *rcu_queue_take(struct rcu_queue *queue, uint64_t done, uint32_t before, bool wait)
{
	struct sheaf *sheaf;

	if (has_none(queue, done) || (!wait && !os_trylock(&queue->lock)))
		return NULL;
	if (wait)
		os_lock(&queue->lock);
	move_passed(queue, done);
	sheaf = queue->top;
	if (sheaf && sheaf->prev->since < before)
		sheaf = sheaf->prev;
	if (sheaf)
		take_out(queue, sheaf);
	if (sheaf && before != RCU_OLDEST)
		queue->taken += sheaf_size(sheaf);
	unlock_queue(queue);
	return sheaf;
}

void rcu_queue_settle(struct rcu_queue *queue, uint64_t done)
{
	while (os_load_relaxed(&queue->first_number) <= done) {
		os_lock(&queue->lock);
		move_passed(queue, done);
		unlock_queue(queue);
	}
}

uint32_t rcu_queue_unused(struct rcu_queue *queue, uint64_t done)
{
	uint32_t least;

	rcu_queue_settle(queue, done);
	os_lock(&queue->lock);
	least = queue->least;
	queue->least = queue->n_passed;
	queue->taken = 0;
	unlock_queue(queue);
	return least;
}

uint32_t rcu_queue_beyond_use(struct rcu_queue *queue, uint64_t done)
{
	uint32_t beyond;

	rcu_queue_settle(queue, done);
	os_lock(&queue->lock);
	beyond = queue->taken < queue->n_passed ? queue->n_passed - queue->taken : 0;
	unlock_queue(queue);
	return beyond;
}

bool rcu_queue_is_empty(const struct rcu_queue *queue)
{
	return has_none(queue, GRACE_NEVER - 1);
}
