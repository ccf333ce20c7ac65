/* SPDX-License-Identifier: MIT */
/* A flavour's heads, its worker, its polling, and its part in fork(); see provider.h. */
#include "provider.h"

#include <sched.h>
#include <time.h>

#define STAY_NS 100000000 /* how long the callback stays on its worker */
#define MANY	8	  /* heads of one grace period */

/* Run the heads, oldest first; returns how many there were. */
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

/* Returns true if this thread must be put online again: until then, no grace period waits for
 * it. */
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

unsigned int provider_serve(struct provider *u)
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

/* The more is retired, the shorter the pause: a grace period then costs less than objects that
 * leave the CPU's cache meanwhile. */
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
		unsigned int heads = provider_serve(u);

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

void provider_call(struct provider *u, struct sheaf_rcu_head *head,
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

/* words[1]: the moment is not noted yet. A later one will do, too. */
void provider_start_poll(struct provider *u, struct sheaf_rcu_poll *state)
{
	state->words[1] = !poll_enter(u);
	if (state->words[1])
		return;
	state->words[0] = u->urcu.start_poll().grace_period_id;
	poll_leave(u);
}

int provider_poll(struct provider *u, const struct sheaf_rcu_poll *state)
{
	int passed;

	if (state->words[1]) {
		provider_start_poll(u, (struct sheaf_rcu_poll *)(uintptr_t)state);
		return 0;
	}
	if (!poll_enter(u))
		return 0;
	passed = u->urcu.poll((struct urcu_gp_poll_state){state->words[0]});
	poll_leave(u);
	return passed;
}

/* --- fork ------------------------------------------------------------------------------------- */

/* The worker is paused first, because it takes our locks. A program that calls liburcu's handlers
 * itself may do so before or after this; then the child loses heads that another thread has in
 * hand. */
void provider_before_fork(struct provider *u)
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

void provider_after_fork_parent(struct provider *u)
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

void provider_after_fork_child(struct provider *u)
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
