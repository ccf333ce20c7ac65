/* SPDX-License-Identifier: MIT */
/*
 * A provider of grace periods whose ordering the thread sanitizer sees completely: readers hold a
 * lock, and barrier(), which waits for them, takes it too.
 */
#ifndef TSAN_READERS_H
#define TSAN_READERS_H

#include <pthread.h>
#include <sheaf/rcu.h>

static pthread_rwlock_t readers = PTHREAD_RWLOCK_INITIALIZER;

static pthread_mutex_t batch_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sheaf_rcu_head *batch;

static void call(struct sheaf_rcu_head *head, void (*func)(struct sheaf_rcu_head *head))
{
	head->func = func;
	pthread_mutex_lock(&batch_lock);
	head->next = batch;
	batch = head;
	pthread_mutex_unlock(&batch_lock);
}

static void barrier(void)
{
	struct sheaf_rcu_head *head, *next;

	pthread_mutex_lock(&batch_lock);
	head = batch;
	batch = NULL;
	pthread_mutex_unlock(&batch_lock);
	pthread_rwlock_wrlock(&readers);
	pthread_rwlock_unlock(&readers);
	for (; head; head = next) {
		next = head->next;
		head->func(head);
	}
}

static const struct sheaf_rcu_ops provider = {
	.size = sizeof(struct sheaf_rcu_ops), .name = "rwlock", .call = call, .barrier = barrier};

#endif
