/* SPDX-License-Identifier: MIT */
/*
 * fork() beside a thread that retires an object: that thread does not wait until the fork is done,
 * since it may be a reader, and what it retired does not keep the child from freeing its own.
 *
 * The handlers of a flavour that registers readers by itself run when all others have: the test takes
 * their place, and has the other thread retire then.
 */
#include "flavour.h"

#include <pthread.h>
#include <semaphore.h>
#include <sheaf/rcu.h>
#include <sheaf/stats.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	PATIENCE = 10 /* s: for what happens at once, or never */
};

struct entry {
	uint64_t stamp;
	struct rcu_head rcu;
};

static struct kmem_cache *cache;
static sem_t go, done;
static bool waited;

static void retire(void)
{
	struct entry *entry = kmem_cache_alloc(cache, GFP_KERNEL);

	if (!entry)
		abort();
	kfree_rcu(entry, rcu);
}

static void *other_thread(void *argument)
{
	rcu_register_thread();
	sem_wait(&go);
	retire();
	/* liburcu would have the child wait for a thread that it does not have. */
	rcu_unregister_thread();
	sem_post(&done);
	return argument;
}

static void in_the_middle(void)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += PATIENCE;
	sem_post(&go);
	waited = sem_timedwait(&done, &end) != 0;
}

static void nothing(void)
{
}

/* Without a barrier: by the callbacks alone. */
static bool all_is_freed(void)
{
	for (int i = 0; i < PATIENCE * 1000; i++) {
		struct kmem_cache_stats stats;

		if (!kmem_cache_stats(cache, &stats) && !stats.objects_in_use)
			return true;
		usleep(1000);
	}
	return false;
}

static void setup(void)
{
	struct sheaf_urcu urcu = {
		.flavor = &rcu_flavor,
		.create_worker = create_call_rcu_data,
		.get_worker = get_thread_call_rcu_data,
		.set_worker = set_thread_call_rcu_data,
		.before_fork = call_rcu_before_fork,
		.after_fork_parent = call_rcu_after_fork_parent,
		.after_fork_child = call_rcu_after_fork_child,
		.readers_before_fork = in_the_middle,
		.readers_after_fork_parent = nothing,
		.readers_after_fork_child = nothing,
	};

	if (__sheaf_urcu_register(&urcu, sizeof(urcu), 0))
		abort();
	cache = kmem_cache_create("fork", sizeof(struct entry), NULL,
				  SLAB_NO_MERGE | SLAB_NO_SHEAVES);
	if (!cache || sem_init(&go, 0, 0) || sem_init(&done, 0, 0))
		abort();
}

int main(void)
{
	pthread_t thread;
	pid_t child;
	int status;

	rcu_register_thread();
	setup();
	retire();
	kvfree_rcu_barrier();
	/* Until the callback has found nothing more to do. */
	usleep(300000);
	pthread_create(&thread, NULL, other_thread, NULL);
	child = fork();
	if (child == 0) {
		retire();
		_exit(!all_is_freed());
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		abort();
	pthread_join(thread, NULL);
	if (waited)
		fprintf(stderr, "fork: kfree_rcu() waited for fork()\n");
	if (status)
		fprintf(stderr, "fork: the child does not free what is retired in it\n");
	if (!all_is_freed()) {
		fprintf(stderr, "fork: the parent does not free what was retired\n");
		return 1;
	}
	kmem_cache_destroy(cache);
	rcu_unregister_thread();
	return waited || status;
}
