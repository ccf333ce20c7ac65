/* SPDX-License-Identifier: MIT */
/*
 * libsheaf-urcu: a provider of grace periods from any flavour of liburcu.
 *
 * The flavour comes as a table of its functions from the header that the program includes
 * (<sheaf/rcu.h>), so this library links none of them.
 *
 *   call() -> heads -- a worker takes all --> synchronize_rcu() -> their functions -- sleep ------.
 *               ^                                                                                |
 *               `---------------------------- until there are none ------------------------------'
 *
 * liburcu's call_rcu worker sleeps 10 ms between batches. What a busy program retires in 10 ms is more
 * than the caches of its CPUs hold. So the worker's one callback of ours stays for STAY_NS while there
 * is something to do, and the more there is, the less it sleeps; the worker is our own, so only an
 * rcu_barrier() waits for that.
 *
 * Invariants
 *  E1. `pumping` is set while the callback is queued or runs. Who sets it queues the callback.
 *  E2. A head's function runs after a grace period that began after the head was pushed.
 *  E3. `serving` is odd while the worker has heads in hand.
 *
 * fork: liburcu's handlers are called around it, so no callback runs meanwhile; in the child the worker
 * is gone, what it had queued was moved to the default one, and that serves us from then on.
 *
 * Locks: none of its own. Callers: programs, by sheaf_urcu_register().
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <urcu/call-rcu.h>
#include <urcu/flavor.h>

#include <sheaf/rcu.h>

#define STAY_NS 100000000 /* of the callback, on its worker */
#define MANY	8	  /* heads of one grace period */

_Static_assert(sizeof(struct rcu_head) == sizeof(struct sheaf_rcu_head),
	       "the one serves as the other");

static struct {
	struct sheaf_urcu urcu;
	struct call_rcu_data *worker; /* NULL: the default one, or none */
	_Atomic(struct sheaf_rcu_head *) heads;
	atomic_uint pumping, leave, registered, serving;
	unsigned int synchronous;
	struct rcu_head pump_head;
} u;

/* Oldest first; how many there were. */
static unsigned int run(struct sheaf_rcu_head *newest)
{
	struct sheaf_rcu_head *oldest = NULL, *next;
	unsigned int n = 0;

	for (; newest; newest = next) {
		n++;
		next = newest->next;
		newest->next = oldest;
		oldest = newest;
	}
	for (; oldest; oldest = next) {
		next = oldest->next;
		oldest->func(oldest);
	}
	return n;
}

/* One grace period, for all that is there; how many heads that was. */
static unsigned int serve(void)
{
	struct sheaf_rcu_head *heads = atomic_exchange(&u.heads, NULL);

	if (!heads)
		return 0;
	u.urcu.flavor->update_synchronize_rcu();
	return run(heads);
}

/* The library asks the more often the more is retired: then a grace period costs less than the caches'
 * lines that pass through memory meanwhile. */
static void pause_after(unsigned int heads)
{
	const struct timespec pause = {.tv_nsec = heads >= MANY ? 250000
						  : heads > 1	? 1000000
								: 10000000};

	nanosleep(&pause, NULL);
}

static void pump(struct rcu_head *head);

static void queue_pump(void)
{
	struct call_rcu_data *before = u.urcu.get_worker();

	if (u.worker)
		u.urcu.set_worker(u.worker);
	u.urcu.flavor->update_call_rcu(&u.pump_head, pump);
	if (u.worker)
		u.urcu.set_worker(before);
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void pump(struct rcu_head *head)
{
	uint64_t begun = now();

	(void)head;
	while (now() - begun < STAY_NS && !atomic_load(&u.leave)) {
		unsigned int heads;

		atomic_fetch_add(&u.serving, 1);
		heads = serve();
		atomic_fetch_add(&u.serving, 1);
		if (heads) {
			pause_after(heads);
			continue;
		}
		atomic_store(&u.pumping, 0);
		if (!atomic_load(&u.heads) || atomic_exchange(&u.pumping, 1))
			return;
	}
	queue_pump();
}

static void call(struct sheaf_rcu_head *head, void (*func)(struct sheaf_rcu_head *head))
{
	struct sheaf_rcu_head *newest = atomic_load_explicit(&u.heads, memory_order_relaxed);

	head->func = func;
	do
		head->next = newest;
	while (!atomic_compare_exchange_weak(&u.heads, &newest, head));
	if (!u.synchronous && !atomic_exchange(&u.pumping, 1))
		queue_pump();
}

/* A grace period of the worker's may wait for this very thread (QSBR), unless it is offline. */
static void wait_for_worker(unsigned int serving)
{
	const struct timespec moment = {.tv_nsec = 50000};
	int online = u.urcu.flavor->read_ongoing();

	if (online)
		u.urcu.flavor->thread_offline();
	while (atomic_load(&u.serving) == serving)
		nanosleep(&moment, NULL);
	if (online)
		u.urcu.flavor->thread_online();
}

static void barrier(void)
{
	unsigned int serving = atomic_load(&u.serving);

	if (!serve() && serving % 2)
		wait_for_worker(serving);
}

static const struct sheaf_rcu_ops ops = {.name = "liburcu", .call = call, .barrier = barrier};

static void before_fork(void)
{
	atomic_store(&u.leave, 1);
	u.urcu.before_fork();
	if (u.urcu.readers_before_fork)
		u.urcu.readers_before_fork();
}

static void after_fork_parent(void)
{
	atomic_store(&u.leave, 0);
	if (u.urcu.readers_after_fork_parent)
		u.urcu.readers_after_fork_parent();
	u.urcu.after_fork_parent();
}

static void after_fork_child(void)
{
	u.worker = NULL;
	atomic_store(&u.leave, 0);
	if (u.urcu.readers_after_fork_child)
		u.urcu.readers_after_fork_child();
	u.urcu.after_fork_child();
}

static void *nothing(void *argument)
{
	return argument;
}

/* liburcu ends the program if it cannot make its worker: try first with a thread of our own. */
static int can_make_threads(void)
{
	pthread_t thread;

	return pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0;
}

static void make_worker(void)
{
	if (can_make_threads())
		u.worker = u.urcu.create_worker(0, -1);
	u.synchronous = !u.worker;
	if (u.synchronous)
		fprintf(stderr,
			"libsheaf: sheaf_urcu_register: no thread can be made for call_rcu; grace "
			"periods pass only in kfree_rcu_mightsleep() and the barriers\n");
}

__attribute__((visibility("default"))) int __sheaf_urcu_register(const struct sheaf_urcu *urcu,
								 size_t size, unsigned int flags)
{
	int saved = errno;

	if (atomic_exchange(&u.registered, 1)) {
		if (urcu->flavor == u.urcu.flavor)
			return 0;
		fprintf(stderr, "libsheaf: sheaf_urcu_register: another flavour is registered "
				"already; nothing done. Use one flavour, or kmem_cache_args.rcu\n");
		return -1;
	}
	memcpy(&u.urcu, urcu, size < sizeof(u.urcu) ? size : sizeof(u.urcu));
	make_worker();
	if (!(flags & SHEAF_URCU_NO_ATFORK) && !u.synchronous)
		pthread_atfork(before_fork, after_fork_parent, after_fork_child);
	errno = saved;
	return sheaf_rcu_register(&ops);
}
