/* SPDX-License-Identifier: MIT */
/* A provider whose grace periods pass when a test says so, or when a thread waits for one. */
#ifndef SHEAF_TESTS_BY_HAND_H
#define SHEAF_TESTS_BY_HAND_H

#include <pthread.h>
#include <sheaf/rcu.h>

static struct {
	pthread_mutex_t lock, passing; /* the list; only one grace period ends at a time */
	struct sheaf_rcu_head *first, **end;
	unsigned int calls, barriers;
	void (*in_barrier)(void); /* another thread's work during it */
	void (*in_call)(void);	  /* before the provider has it */
} by_hand = {.lock = PTHREAD_MUTEX_INITIALIZER,
	     .passing = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
	     .end = &by_hand.first};

static void by_hand_call(struct sheaf_rcu_head *head, void (*func)(struct sheaf_rcu_head *head))
{
	if (by_hand.in_call)
		by_hand.in_call();
	pthread_mutex_lock(&by_hand.lock);
	by_hand.calls++;
	head->func = func;
	head->next = NULL;
	*by_hand.end = head;
	by_hand.end = &head->next;
	pthread_mutex_unlock(&by_hand.lock);
}

/* A grace period: callbacks added before it are called; those that they add are not. */
static inline void by_hand_pass(void)
{
	struct sheaf_rcu_head *head, *next;

	pthread_mutex_lock(&by_hand.passing);
	pthread_mutex_lock(&by_hand.lock);
	head = by_hand.first;
	by_hand.first = NULL;
	by_hand.end = &by_hand.first;
	pthread_mutex_unlock(&by_hand.lock);
	for (; head; head = next) {
		next = head->next;
		head->func(head);
	}
	pthread_mutex_unlock(&by_hand.passing);
}

static void by_hand_barrier(void)
{
	by_hand.barriers++;
	if (by_hand.in_barrier)
		by_hand.in_barrier();
	by_hand_pass();
}

static const struct sheaf_rcu_ops by_hand_ops = {.size = sizeof(struct sheaf_rcu_ops),
						 .name = "by hand",
						 .call = by_hand_call,
						 .barrier = by_hand_barrier};

#endif
