/* SPDX-License-Identifier: MIT */
/*
 * fork() while another thread retires an object: that thread does not wait for the end of the fork,
 * because it may be a reader, and its retired object does not prevent the child from freeing its
 * own objects.
 *
 * The fork handlers of a flavour that registers readers automatically run after all others: the
 * test takes their place, and makes the other thread retire then.
 */
#include "flavour.h"

#include <pthread.h>
#include <semaphore.h>
#include <sheaf/rcu.h>
#include <sheaf/stats.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct entry {
	uint64_t stamp;
	struct rcu_head rcu;
};

static struct kmem_cache *cache;
static sem_t go, done;
static atomic_int callbacks; /* queued, or running */
static void (*callback)(struct rcu_head *head);

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

/* If the other thread waited for the fork, the test would hang here. */
static void in_the_middle(void)
{
	sem_post(&go);
	sem_wait(&done);
}

static void nothing(void)
{
}

/* Without a barrier, by the callbacks alone. Otherwise the test hangs here. */
static void wait_until_all_is_freed(void)
{
	struct kmem_cache_stats stats;

	while (kmem_cache_stats(cache, &stats) || stats.objects_in_use)
		usleep(1000);
}

static void run_callback(struct rcu_head *head)
{
	callback(head);
	atomic_fetch_sub(&callbacks, 1);
}

static void count_callback(struct rcu_head *head, void (*func)(struct rcu_head *head))
{
	callback = func;
	atomic_fetch_add(&callbacks, 1);
	rcu_flavor.update_call_rcu(head, run_callback);
}

static void setup(void)
{
	static struct rcu_flavor_struct counted;
	struct sheaf_urcu urcu = {
		.flavor = &counted,
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

	counted = rcu_flavor;
	counted.update_call_rcu = count_callback;
	if (sheaf_rcu_register(__sheaf_urcu_provider(&urcu, sizeof(urcu), 0)))
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
	while (atomic_load(&callbacks))
		usleep(1000);
	pthread_create(&thread, NULL, other_thread, NULL);
	child = fork();
	if (child == 0) {
		retire();
		wait_until_all_is_freed();
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		abort();
	pthread_join(thread, NULL);
	wait_until_all_is_freed();
	kmem_cache_destroy(cache);
	rcu_unregister_thread();
	return status != 0;
}
