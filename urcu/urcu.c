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
 *  E3. Who has heads in hand holds serve_lock. A grace period passes meanwhile: a registered thread of
 *      a QSBR flavour waits for it offline, or that grace period would wait for this thread.
 *  E4. Who sets `pumping` and queues the callback holds queue_lock, as does fork. Who calls may be a
 *      reader, so only fork waits for it; who finds it taken leaves the callback to its holder.
 *
 * fork: both locks are taken and liburcu's handlers called around it, so no heads are in a vanished
 * thread's hand; in the child the worker is gone, what it had queued was moved to the default one, and
 * that serves us from then on.
 *
 * Callers: programs, by sheaf_urcu_register().
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
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
	atomic_uint pumping, leave;
	pthread_mutex_t register_lock, serve_lock, queue_lock;
	unsigned int registered, synchronous, no_atfork;
	struct rcu_head pump_head;
} u = {.register_lock = PTHREAD_MUTEX_INITIALIZER,
       .serve_lock = PTHREAD_MUTEX_INITIALIZER,
       .queue_lock = PTHREAD_MUTEX_INITIALIZER};

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

/* True if this thread must be put online again: nobody waits for it meanwhile. */
static int go_offline(void)
{
	int online = u.urcu.flavor->read_ongoing();

	if (online)
		u.urcu.flavor->thread_offline();
	return online;
}

static void go_online(int online)
{
	if (online)
		u.urcu.flavor->thread_online();
}

/* One grace period, for all that is there; how many heads that was. What others have in hand is done
 * on return, too. */
static unsigned int serve(void)
{
	int online = go_offline();
	struct sheaf_rcu_head *heads;
	unsigned int n = 0;

	pthread_mutex_lock(&u.serve_lock);
	heads = atomic_exchange(&u.heads, NULL);
	if (heads) {
		u.urcu.flavor->update_synchronize_rcu();
		n = run(heads);
	}
	pthread_mutex_unlock(&u.serve_lock);
	go_online(online);
	return n;
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

/* Whoever holds the lock looks again when it is free: nobody's head stays behind. */
static void start_pump(void)
{
	while (!u.synchronous && atomic_load(&u.heads) && !atomic_load(&u.pumping) &&
	       !pthread_mutex_trylock(&u.queue_lock)) {
		if (!atomic_exchange(&u.pumping, 1))
			queue_pump();
		pthread_mutex_unlock(&u.queue_lock);
	}
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* True if it is to be queued again. */
static bool stay(void)
{
	uint64_t begun = now();

	while (now() - begun < STAY_NS && !atomic_load(&u.leave)) {
		unsigned int heads = serve();

		if (heads) {
			pause_after(heads);
			continue;
		}
		atomic_store(&u.pumping, 0);
		if (!atomic_load(&u.heads) || atomic_exchange(&u.pumping, 1))
			return false;
	}
	return true;
}

/* The worker is a reader of a QSBR flavour, whom others would wait for while it pauses. */
static void pump(struct rcu_head *head)
{
	int online = go_offline();
	bool again = stay();

	(void)head;
	go_online(online);
	if (again)
		queue_pump();
}

static void call(struct sheaf_rcu_head *head, void (*func)(struct sheaf_rcu_head *head))
{
	struct sheaf_rcu_head *newest = atomic_load_explicit(&u.heads, memory_order_relaxed);

	head->func = func;
	do
		head->next = newest;
	while (!atomic_compare_exchange_weak(&u.heads, &newest, head));
	start_pump();
}

static void barrier(void)
{
	serve();
}

static const struct sheaf_rcu_ops ops = {.name = "liburcu", .call = call, .barrier = barrier};

/* The worker is paused first: it takes our locks. Where the program calls liburcu's handlers, it may
 * do so before or after this, and what another thread has in hand is lost to the child. */
static void before_fork(void)
{
	int online;

	if (u.no_atfork)
		return;
	atomic_store(&u.leave, 1);
	online = go_offline();
	u.urcu.before_fork();
	pthread_mutex_lock(&u.serve_lock);
	pthread_mutex_lock(&u.queue_lock);
	go_online(online);
	if (u.urcu.readers_before_fork)
		u.urcu.readers_before_fork();
}

static void after_fork_parent(void)
{
	if (u.no_atfork)
		return;
	if (u.urcu.readers_after_fork_parent)
		u.urcu.readers_after_fork_parent();
	pthread_mutex_unlock(&u.queue_lock);
	pthread_mutex_unlock(&u.serve_lock);
	atomic_store(&u.leave, 0);
	u.urcu.after_fork_parent();
	start_pump();
}

static void after_fork_child(void)
{
	u.worker = NULL;
	pthread_mutex_init(&u.queue_lock, NULL);
	pthread_mutex_init(&u.serve_lock, NULL);
	if (u.no_atfork)
		return;
	atomic_store(&u.leave, 0);
	if (u.urcu.readers_after_fork_child)
		u.urcu.readers_after_fork_child();
	u.urcu.after_fork_child();
	start_pump();
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

/* Once, with register_lock held. */
static void begin(const struct sheaf_urcu *urcu, size_t size, unsigned int flags)
{
	memcpy(&u.urcu, urcu, size < sizeof(u.urcu) ? size : sizeof(u.urcu));
	u.no_atfork = (flags & SHEAF_URCU_NO_ATFORK) != 0;
	make_worker();
	pthread_atfork(before_fork, after_fork_parent, after_fork_child);
	u.registered = 1;
}

__attribute__((visibility("default"))) int __sheaf_urcu_register(const struct sheaf_urcu *urcu,
								 size_t size, unsigned int flags)
{
	int saved = errno, other;

	pthread_mutex_lock(&u.register_lock);
	if (!u.registered)
		begin(urcu, size, flags);
	other = urcu->flavor != u.urcu.flavor;
	pthread_mutex_unlock(&u.register_lock);
	errno = saved;
	if (other) {
		fprintf(stderr, "libsheaf: sheaf_urcu_register: another flavour is registered "
				"already; nothing done. Use one flavour, or kmem_cache_args.rcu\n");
		return -1;
	}
	return sheaf_rcu_register(&ops);
}
