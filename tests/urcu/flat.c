/* SPDX-License-Identifier: MIT */
/*
 * Memory does not grow when one CPU allocates and another one retires, however long they continue:
 * objects that have passed their grace period on one CPU must return to the other.
 *
 *   flat [ROUNDS]
 *
 *   allocator, CPU 0 -- ring --> retirer, CPU 1 -- rcu_free -- grace period --> allocator
 */
#include "flavour.h"

#include <pthread.h>
#include <sched.h>
#include <sheaf/rcu.h>
#include <sheaf/stats.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kit/cache.h"
#include "kit/check.h"
#include "kit/process.h"

enum {
	RING = 256, /* a power of two */
	LIMIT_MIB = 64,
	WAIT_MIB = 8, /* where the retirer waits for grace periods: the worker may get no CPU */
	LOOK = 8192,  /* rounds between looks at that */
	TIMES = 4     /* how much it may grow after the first tenth */
};

struct item {
	uint64_t number;
	struct rcu_head rcu;
	uint64_t rest[13];
};

static struct kmem_cache *s;
static struct item *ring[RING];
static _Atomic unsigned long put, taken;
static unsigned long rounds = 1000000;
static uint64_t most_retired;

static void *allocator(void *argument)
{
	pin(0);
	for (unsigned long i = 0; i < rounds; i++) {
		struct item *item = kmem_cache_alloc(s, GFP_KERNEL);

		CHECK(item);
		item->number = i;
		while (i - atomic_load_explicit(&taken, memory_order_acquire) == RING)
			sched_yield();
		ring[i % RING] = item;
		atomic_store_explicit(&put, i + 1, memory_order_release);
	}
	return argument;
}

static void see_retired(void)
{
	struct sheaf_stats process;

	while (look(s).rcu_pending_bytes > (uint64_t)WAIT_MIB << 20)
		usleep(1000);
	sheaf_stats(&process);
	if (process.rcu_bytes > most_retired)
		most_retired = process.rcu_bytes;
}

static void retire(unsigned long number)
{
	struct item *item;

	while (atomic_load_explicit(&put, memory_order_acquire) == number)
		sched_yield();
	item = ring[number % RING];
	CHECK(item->number == number);
	atomic_store_explicit(&taken, number + 1, memory_order_release);
	kfree_rcu(item, rcu);
}

int main(int argc, char **argv)
{
	uint64_t early = 0, late;
	pthread_t thread;

	if (argc > 1)
		rounds = strtoul(argv[1], NULL, 10);
	rcu_register_thread();
	CHECK(sheaf_urcu_register(0) == 0);
	s = kmem_cache_create("flat", sizeof(struct item), NULL, SLAB_NO_MERGE);
	CHECK(s && pthread_create(&thread, NULL, allocator, NULL) == 0);
	pin(1);
	for (unsigned long i = 0; i < rounds; i++) {
		retire(i);
		if (i == rounds / 10)
			early = look(s).slab_bytes;
		if (i % LOOK == 0)
			see_retired();
	}
	pthread_join(thread, NULL);
	late = look(s).slab_bytes;
	printf("%lu rounds: %llu KiB of slabs after the first tenth, %llu KiB at the end, at most "
	       "%llu "
	       "KiB retired\n",
	       rounds, (unsigned long long)early >> 10, (unsigned long long)late >> 10,
	       (unsigned long long)most_retired >> 10);
	CHECK(late <= TIMES * early + ((uint64_t)LIMIT_MIB << 18));
	CHECK(most_retired <= (uint64_t)LIMIT_MIB << 20);
	kvfree_rcu_barrier();
	CHECK(kmem_cache_verify(s) == 0);
	/* The worker may still have a sheaf in hand, which it exchanges. */
	while (kmem_cache_shrink(s))
		usleep(1000);
	kmem_cache_destroy(s);
	rcu_unregister_thread();
	return 0;
}
