/* SPDX-License-Identifier: MIT */
/*
 * libsheaf-urcu: providers of grace periods from the flavours of liburcu.
 *
 * A flavour is passed as a table of its functions by the header that the program includes
 * (<sheaf/urcu.h>), so this library links no flavour. Each flavour has its own place with its own
 * set of functions, because the functions of a provider do not get an argument that identifies it.
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
 * fork: this file takes both locks and calls liburcu's handlers around it, so no vanished thread
 * has heads in hand. In the child the worker is gone; its queue was moved to the default worker,
 * which serves us from then on.
 *
 * Callers: programs, by sheaf_urcu_provider() and sheaf_urcu_register().
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

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

#define STAY_NS	 100000000 /* of the callback, on its worker */
#define MANY	 8	   /* heads of one grace period */
#define FLAVOURS 5	   /* memb, mb, signal, qsbr, bp */

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

static struct provider providers[FLAVOURS];
static unsigned int nr_providers;
static pthread_mutex_t register_lock = PTHREAD_MUTEX_INITIALIZER;

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

/* Returns true if this thread must be put online again: until then, no grace period waits for it. */
static int go_offline(struct provider *u)
{
	int online = u->urcu.flavor->read_ongoing();

	if (online)
		u->urcu.flavor->thread_offline();
	return online;
}

static void go_online(struct provider *u, int online)
{
	if (online)
		u->urcu.flavor->thread_online();
}

/* One grace period, for all that is there; how many heads that was. What others have in hand is done
 * on return, too. */
static unsigned int serve(struct provider *u)
{
	int online = go_offline(u);
	struct sheaf_rcu_head *heads;
	unsigned int n = 0;

	pthread_mutex_lock(&u->serve_lock);
	heads = atomic_exchange(&u->heads, NULL);
	if (heads) {
		u->urcu.flavor->update_synchronize_rcu();
		n = run(heads);
	}
	pthread_mutex_unlock(&u->serve_lock);
	go_online(u, online);
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

static void queue_pump(struct provider *u)
{
	struct call_rcu_data *before = u->urcu.get_worker();

	if (u->worker)
		u->urcu.set_worker(u->worker);
	u->urcu.flavor->update_call_rcu(&u->pump_head, pump);
	if (u->worker)
		u->urcu.set_worker(before);
}

/* The thread that holds the lock checks again after it releases the lock, so no head is left
 * behind. */
static void start_pump(struct provider *u)
{
	while (!u->synchronous && atomic_load(&u->heads) && !atomic_load(&u->pumping) &&
	       !pthread_mutex_trylock(&u->queue_lock)) {
		if (!atomic_exchange(&u->pumping, 1))
			queue_pump(u);
		pthread_mutex_unlock(&u->queue_lock);
	}
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* True if it is to be queued again. */
static bool stay(struct provider *u)
{
	uint64_t begun = now();

	while (now() - begun < STAY_NS && !atomic_load(&u->leave)) {
		unsigned int heads = serve(u);

		if (heads) {
			pause_after(heads);
			continue;
		}
		atomic_store(&u->pumping, 0);
		if (!atomic_load(&u->heads) || atomic_exchange(&u->pumping, 1))
			return false;
	}
	return true;
}

/* The worker is a reader of a QSBR flavour; other threads would wait for it while it pauses. */
static void pump(struct rcu_head *head)
{
	struct provider *u = (struct provider *)head;
	int online = go_offline(u);
	bool again = stay(u);

	go_online(u, online);
	if (again)
		queue_pump(u);
}

static void call(struct provider *u, struct sheaf_rcu_head *head,
		 void (*func)(struct sheaf_rcu_head *head))
{
	struct sheaf_rcu_head *newest = atomic_load_explicit(&u->heads, memory_order_relaxed);

	head->func = func;
	do
		head->next = newest;
	while (!atomic_compare_exchange_weak(&u->heads, &newest, head));
	start_pump(u);
}

/* False while a fork begins: it waits for those inside (E5), and they must not wait for it. */
static bool poll_enter(struct provider *u)
{
	atomic_fetch_add(&u->polling, 1);
	if (!atomic_load(&u->leave))
		return true;
	atomic_fetch_sub(&u->polling, 1);
	return false;
}

static void poll_leave(struct provider *u)
{
	atomic_fetch_sub(&u->polling, 1);
}

/* words[1]: the moment is not noted yet. A later one will do. */
static void start_poll(struct provider *u, struct sheaf_rcu_poll *state)
{
	state->words[1] = !poll_enter(u);
	if (state->words[1])
		return;
	state->words[0] = u->urcu.start_poll().grace_period_id;
	poll_leave(u);
}

static int poll_state(struct provider *u, const struct sheaf_rcu_poll *state)
{
	int passed;

	if (state->words[1]) {
		start_poll(u, (struct sheaf_rcu_poll *)(uintptr_t)state);
		return 0;
	}
	if (!poll_enter(u))
		return 0;
	passed = u->urcu.poll((struct urcu_gp_poll_state){state->words[0]});
	poll_leave(u);
	return passed;
}

/* What the library calls, for each place. */
#define OPS(i)                                                                                     \
	static void call_##i(struct sheaf_rcu_head *head,                                          \
			     void (*func)(struct sheaf_rcu_head * head))                           \
	{                                                                                          \
		call(&providers[i], head, func);                                                   \
	}                                                                                          \
                                                                                                   \
	static void barrier_##i(void)                                                              \
	{                                                                                          \
		serve(&providers[i]);                                                              \
	}                                                                                          \
                                                                                                   \
	static void start_poll_##i(struct sheaf_rcu_poll *state)                                   \
	{                                                                                          \
		start_poll(&providers[i], state);                                                  \
	}                                                                                          \
                                                                                                   \
	static int poll_##i(const struct sheaf_rcu_poll *state)                                    \
	{                                                                                          \
		return poll_state(&providers[i], state);                                           \
	}
#define TABLE(i)                                                                                   \
	{                                                                                          \
		sizeof(struct sheaf_rcu_ops), "liburcu", call_##i, barrier_##i, start_poll_##i,    \
			poll_##i                                                                   \
	}

OPS(0)
OPS(1)
OPS(2)
OPS(3)
OPS(4)

static struct sheaf_rcu_ops ops[FLAVOURS] = {TABLE(0), TABLE(1), TABLE(2), TABLE(3), TABLE(4)};

/* --- fork --------------------------------------------------------------------------------------- */

/* The worker is paused first: it takes our locks. Where the program calls liburcu's handlers, it may
 * do so before or after this, and what another thread has in hand is lost to the child. */
static void provider_before_fork(struct provider *u)
{
	int online;

	if (u->no_atfork)
		return;
	atomic_store(&u->leave, 1);
	/* Before liburcu's own locks are taken, which they may need. */
	while (atomic_load(&u->polling))
		sched_yield();
	online = go_offline(u);
	u->urcu.before_fork();
	pthread_mutex_lock(&u->serve_lock);
	pthread_mutex_lock(&u->queue_lock);
	go_online(u, online);
	if (u->urcu.readers_before_fork)
		u->urcu.readers_before_fork();
}

static void provider_after_fork_parent(struct provider *u)
{
	if (u->no_atfork)
		return;
	if (u->urcu.readers_after_fork_parent)
		u->urcu.readers_after_fork_parent();
	pthread_mutex_unlock(&u->queue_lock);
	pthread_mutex_unlock(&u->serve_lock);
	atomic_store(&u->leave, 0);
	u->urcu.after_fork_parent();
	start_pump(u);
}

static void provider_after_fork_child(struct provider *u)
{
	u->worker = NULL;
	pthread_mutex_init(&u->queue_lock, NULL);
	pthread_mutex_init(&u->serve_lock, NULL);
	atomic_store(&u->polling, 0);
	if (u->no_atfork)
		return;
	atomic_store(&u->leave, 0);
	if (u->urcu.readers_after_fork_child)
		u->urcu.readers_after_fork_child();
	u->urcu.after_fork_child();
	start_pump(u);
}

static void before_fork(void)
{
	pthread_mutex_lock(&register_lock);
	for (unsigned int i = 0; i < nr_providers; i++)
		provider_before_fork(&providers[i]);
}

static void after_fork_parent(void)
{
	for (unsigned int i = nr_providers; i-- > 0;)
		provider_after_fork_parent(&providers[i]);
	pthread_mutex_unlock(&register_lock);
}

static void after_fork_child(void)
{
	for (unsigned int i = nr_providers; i-- > 0;)
		provider_after_fork_child(&providers[i]);
	pthread_mutex_init(&register_lock, NULL);
}

/* --- registration ------------------------------------------------------------------------------- */

static void *nothing(void *argument)
{
	return argument;
}

/* liburcu ends the program if it cannot create its worker, so first try with a thread of our own. */
static bool can_make_threads(void)
{
	pthread_t thread;

	return pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0;
}

/* With register_lock held. */
static struct provider *find(const struct rcu_flavor_struct *flavor)
{
	for (unsigned int i = 0; i < nr_providers; i++)
		if (providers[i].urcu.flavor == flavor)
			return &providers[i];
	return NULL;
}

/* The same. NULL: there is no place. */
static struct provider *make(const struct sheaf_urcu *urcu, size_t size, unsigned int flags)
{
	struct provider *u = &providers[nr_providers];

	if (nr_providers == FLAVOURS)
		return NULL;
	memcpy(&u->urcu, urcu, size < sizeof(u->urcu) ? size : sizeof(u->urcu));
	u->no_atfork = (flags & SHEAF_URCU_NO_ATFORK) != 0;
	pthread_mutex_init(&u->serve_lock, NULL);
	pthread_mutex_init(&u->queue_lock, NULL);
	if (can_make_threads())
		u->worker = u->urcu.create_worker(0, -1);
	u->synchronous = !u->worker;
	/* liburcu creates the default worker when it is first polled: create it now, while threads
	 * can be created. */
	if (!u->worker || !u->urcu.start_poll || !u->urcu.get_default_worker())
		ops[nr_providers].start_poll = NULL, ops[nr_providers].poll = NULL;
	if (nr_providers++ == 0)
		pthread_atfork(before_fork, after_fork_parent, after_fork_child);
	return u;
}

__attribute__((visibility("default"))) const struct sheaf_rcu_ops *
__sheaf_urcu_provider(const struct sheaf_urcu *urcu, size_t size, unsigned int flags)
{
	struct provider *u, *made = NULL;
	int saved = errno;

	pthread_mutex_lock(&register_lock);
	u = find(urcu->flavor);
	if (!u)
		u = made = make(urcu, size, flags);
	pthread_mutex_unlock(&register_lock);
	if (!u)
		fprintf(stderr,
			"libsheaf: sheaf_urcu_provider: %d flavours are already in use; this one "
			"is not created. Pass the address of the flavour's own table\n",
			FLAVOURS);
	if (made && made->synchronous)
		fprintf(stderr,
			"libsheaf: sheaf_urcu_provider: cannot create a thread for call_rcu; "
			"grace periods end only in kfree_rcu_mightsleep() and the barriers\n");
	errno = saved;
	return u ? &ops[u - providers] : NULL;
}
