/* SPDX-License-Identifier: MIT */
/*
 * A provider of grace periods from one flavour of liburcu: its heads and its worker.
 *
 *   call() -> heads -- a worker takes all --> synchronize_rcu() -> their functions -- sleep ------.
 *               ^                                                                                |
 *               `---------------------------- until there are none ------------------------------'
 *
 * liburcu's call_rcu worker sleeps 10 ms between batches. A busy program retires more in 10 ms than
 * its CPUs' caches hold. So our one callback stays in the worker for STAY_NS while there is work,
 * and sleeps less the more work there is. The worker is our own, so only an rcu_barrier() waits for
 * the callback.
 *
 * Invariants
 *  E1. `pumping` is set while the callback is queued or runs. The thread that sets it queues the
 *      callback.
 *  E2. A head's function runs after a grace period that began after the head was pushed.
 *  E3. A thread that has heads in hand holds serve_lock. A grace period passes meanwhile, so a
 *     registered thread of a QSBR flavour waits offline; otherwise that grace period would wait for
 *     this thread.
 *  E4. A thread that sets `pumping` and queues the callback holds queue_lock; so does fork. The
 *     thread may be a reader, so only fork waits for this lock; any other thread that finds it
 *     taken leaves the callback to its holder.
 *  E5. liburcu polls under a lock that its fork handlers do not know. So `polling` counts the
 *      threads that poll: fork waits for them, and no thread starts to poll while `leave` is set.
 *
 * liburcu 0.14 and later can be polled. If the program was built with such headers, objects are
 * reused when a grace period has passed, even if our callback has not run yet. The polled grace
 * periods are queued to liburcu's default worker, because ours may be in that callback.
 *
 * fork: the locks are taken, and liburcu's handlers called, around it, so no vanished thread has
 * heads in hand. In the child the worker is gone; its queue was moved to the default worker, which
 * serves us from then on.
 *
 * Callers: urcu.c.
 */
#ifndef SHEAF_URCU_PROVIDER_H
#define SHEAF_URCU_PROVIDER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <urcu/call-rcu.h>
#include <urcu/flavor.h>
#if __has_include(<urcu/urcu-poll.h>)
#include <urcu/urcu-poll.h>
#else
struct urcu_gp_poll_state { /* from liburcu 0.14 on, which the program may be built for */
	unsigned long grace_period_id;
};
#endif

#include <sheaf/urcu.h>

_Static_assert(sizeof(struct rcu_head) == sizeof(struct sheaf_rcu_head),
	       "the one serves as the other");

struct provider {
	struct rcu_head pump_head; /* first */
	struct sheaf_urcu urcu;
	struct call_rcu_data *worker; /* NULL: the default one, or none */
	_Atomic(struct sheaf_rcu_head *) heads;
	atomic_uint pumping, leave, polling;
	pthread_mutex_t serve_lock, queue_lock;
	bool synchronous, no_atfork;
};

/* What the library calls; see <sheaf/rcu.h>. */
void provider_call(struct provider *u, struct sheaf_rcu_head *head,
		   void (*func)(struct sheaf_rcu_head *head));
/* One grace period, for all heads that are there; how many that was. Heads that other threads have
 * in hand are done on return, too. */
unsigned int provider_serve(struct provider *u);
void provider_start_poll(struct provider *u, struct sheaf_rcu_poll *state);
int provider_poll(struct provider *u, const struct sheaf_rcu_poll *state);

/* Around fork(). */
void provider_before_fork(struct provider *u);
void provider_after_fork_parent(struct provider *u);
void provider_after_fork_child(struct provider *u);

#endif
