/* SPDX-License-Identifier: MIT */
/*
 * A program without a race, for the thread sanitizer: one thread uses a sheaf that another one
 * prefilled, but none of that thread's objects. The library reads the sheaf with memcpy(), which
 * the sanitizer sees (TSAN-Z4).
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <sheaf/slab.h>
#include <stdlib.h>

#include "turns.h"

#define BATCH  70   /* more than a sheaf holds at first, so that each goes through two */
#define ROUNDS 2000 /* until the cache has larger ones, and moves the objects of small ones */

static struct kmem_cache *cache;
static void *first;

/* There is no sheaf: one is made for this object. */
static void *maker(void *unused)
{
	wait_for(1);
	kmem_cache_free(cache, first);
	next_turn();
	return unused;
}

static void *user(void *unused)
{
	void *objects[BATCH];

	for (int i = 0; i < BATCH; i++)
		if (!(objects[i] = kmem_cache_alloc(cache, GFP_KERNEL)))
			abort();
	kmem_cache_shrink(cache);
	next_turn();
	wait_for(2);
	/* Last in, first out: the other's object stays. */
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < BATCH; i++)
			kmem_cache_free(cache, objects[i]);
		for (int i = 0; i < BATCH; i++)
			objects[i] = kmem_cache_alloc(cache, GFP_KERNEL);
	}
	for (int i = 0; i < BATCH; i++)
		kmem_cache_free(cache, objects[i]);
	return unused;
}

int main(void)
{
	pthread_t threads[2];
	cpu_set_t one;

	/* Both use the sheaves of one CPU. */
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	cache = kmem_cache_create("handed", 64, NULL, SLAB_NO_MERGE);
	first = cache ? kmem_cache_alloc(cache, GFP_KERNEL) : NULL;
	if (!first || sched_setaffinity(0, sizeof(one), &one) ||
	    pthread_create(&threads[0], NULL, maker, NULL) ||
	    pthread_create(&threads[1], NULL, user, NULL))
		return 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	kmem_cache_destroy(cache);
	return 0;
}
