/* SPDX-License-Identifier: MIT */
/*
 * libsheaf-urcu: providers of grace periods from the flavours of liburcu.
 *
 * A flavour is passed as a table of its functions by the header that the program includes
 * (<sheaf/urcu.h>), so this library links no flavour. Each flavour has its own place with its own
 * set of functions, because the functions of a provider do not get an argument that identifies it.
 * provider.c does the work of one place; this file has the places, their part in fork(), and the
 * call that creates them.
 *
 * Callers: programs, by sheaf_urcu_provider() and sheaf_urcu_register().
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "provider.h"

#define FLAVOURS 5 /* memb, mb, signal, qsbr, bp */

static struct provider providers[FLAVOURS];
static unsigned int nr_providers;
static pthread_mutex_t register_lock = PTHREAD_MUTEX_INITIALIZER;

/* What the library calls, for each place. */
#define OPS(i)                                                                                     \
	static void call_##i(struct sheaf_rcu_head *head,                                          \
			     void (*func)(struct sheaf_rcu_head * head))                           \
	{                                                                                          \
		provider_call(&providers[i], head, func);                                          \
	}                                                                                          \
                                                                                                   \
	static void barrier_##i(void)                                                              \
	{                                                                                          \
		provider_serve(&providers[i]);                                                     \
	}                                                                                          \
                                                                                                   \
	static void start_poll_##i(struct sheaf_rcu_poll *state)                                   \
	{                                                                                          \
		provider_start_poll(&providers[i], state);                                         \
	}                                                                                          \
                                                                                                   \
	static int poll_##i(const struct sheaf_rcu_poll *state)                                    \
	{                                                                                          \
		return provider_poll(&providers[i], state);                                        \
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

/* --- fork ------------------------------------------------------------------------------------- */

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

/* --- registration ----------------------------------------------------------------------------- */

static void *nothing(void *argument)
{
	return argument;
}

/* liburcu ends the program if it cannot create its worker, so first try with a thread of our
 * own. */
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

/* A new provider for this flavour. NULL: there is no place. */
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
