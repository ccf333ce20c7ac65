/* SPDX-License-Identifier: MIT */
/*
 * Grace periods made with one lock: readers hold it shared, and a thread that takes it exclusively
 * knows that all earlier readers have left. This is slow, but the thread sanitizer sees the order,
 * which it does not with liburcu. The names are liburcu's, for programs that could use either.
 */
#ifndef TESTS_MAPLE_GRACE_H
#define TESTS_MAPLE_GRACE_H

#include <pthread.h>
#include <sheaf/rcu.h>
#include <stdbool.h>
#include <stddef.h>

struct rcu_head {
	struct sheaf_rcu_head head;
};

static pthread_rwlock_t grace_readers = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static pthread_mutex_t grace_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t grace_changed = PTHREAD_COND_INITIALIZER;
/* Under grace_lock. */
static struct sheaf_rcu_head *grace_called;
static unsigned long grace_nr_called, grace_nr_done;

static void grace_call(struct sheaf_rcu_head *head, void (*func)(struct sheaf_rcu_head *head))
{
	head->func = func;
	pthread_mutex_lock(&grace_lock);
	head->next = grace_called;
	grace_called = head;
	grace_nr_called++;
	pthread_cond_broadcast(&grace_changed);
	pthread_mutex_unlock(&grace_lock);
}

static void grace_barrier(void)
{
	unsigned long called;

	pthread_mutex_lock(&grace_lock);
	called = grace_nr_called;
	while (grace_nr_done < called)
		pthread_cond_wait(&grace_changed, &grace_lock);
	pthread_mutex_unlock(&grace_lock);
}

static void *grace_thread(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&grace_lock);
	for (;;) {
		struct sheaf_rcu_head *head = grace_called, *next;
		unsigned long nr = grace_nr_called;

		if (!head) {
			pthread_cond_wait(&grace_changed, &grace_lock);
			continue;
		}
		grace_called = NULL;
		pthread_mutex_unlock(&grace_lock);
		pthread_rwlock_wrlock(&grace_readers);
		pthread_rwlock_unlock(&grace_readers);
		for (; head; head = next) {
			next = head->next;
			head->func(head);
		}
		pthread_mutex_lock(&grace_lock);
		grace_nr_done = nr;
		pthread_cond_broadcast(&grace_changed);
	}
	return NULL;
}

static inline void rcu_read_lock(void)
{
	pthread_rwlock_rdlock(&grace_readers);
}

static inline void rcu_read_unlock(void)
{
	pthread_rwlock_unlock(&grace_readers);
}

static inline void rcu_register_thread(void)
{
}

static inline void rcu_unregister_thread(void)
{
}

static inline int grace_register(void)
{
	static const struct sheaf_rcu_ops ops = {.size = sizeof(struct sheaf_rcu_ops),
						 .name = "one lock",
						 .call = grace_call,
						 .barrier = grace_barrier};
	pthread_t thread;

	return sheaf_rcu_register(&ops) || pthread_create(&thread, NULL, grace_thread, NULL);
}

#endif
