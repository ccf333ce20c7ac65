/* SPDX-License-Identifier: MIT */
/*
 * The groups benchmark: what charging costs.
 *
 *   own       each of two threads allocates a batch of 100 objects and frees it; the objects of a
 *             batch are charged to groups in turn
 *   cross     one thread allocates, the other one frees; each has its own group
 *
 * With --groups 0 nothing is charged. For each iteration but the first, it prints the ns of CPU
 * time of a pair, the mean of both threads.
 */
#include <pthread.h>
#include <sheaf/group.h>
#include <sheaf/slab.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/common.h"
#include "common/ring.h"

#define THREADS	   2
#define BATCH	   100
#define GROUPS_MAX 100000

static struct options {
	size_t groups, pairs, iterations, size;
	bool cross;
} options = {.pairs = 1000000, .iterations = 11, .size = 64};

static struct kmem_cache *cache;
static struct kmem_group *groups[GROUPS_MAX];
static struct bench_ring ring;
static double times[THREADS];
static pthread_barrier_t together;

static void fail(const char *why)
{
	fprintf(stderr, "groups: %s\n", why);
	exit(1);
}

static void *take(size_t number)
{
	void *object = options.groups > 1
			       ? kmem_cache_alloc_charged(cache, GFP_KERNEL,
							  groups[number % options.groups])
			       : kmem_cache_alloc(cache, GFP_KERNEL);

	if (!object)
		bench_out_of_memory();
	return object;
}

static void run_own(size_t thread)
{
	void *objects[BATCH];

	for (size_t i = 0; i < options.pairs; i += BATCH) {
		for (size_t n = 0; n < BATCH; n++)
			objects[n] = take(THREADS * (i + n) + thread);
		for (size_t n = 0; n < BATCH; n++)
			kmem_cache_free(cache, objects[n]);
	}
}

static void produce(void)
{
	for (size_t i = 0; i < options.pairs; i += BENCH_GROUP) {
		void **slots;

		while (!(slots = bench_ring_room(&ring)))
			sched_yield();
		for (size_t n = 0; n < BENCH_GROUP; n++)
			slots[n] = kmem_cache_alloc(cache, GFP_KERNEL);
		bench_ring_put(&ring);
	}
}

static void consume(void)
{
	for (size_t i = 0; i < options.pairs; i += BENCH_GROUP) {
		void **slots;

		while (!(slots = bench_ring_group(&ring)))
			sched_yield();
		for (size_t n = 0; n < BENCH_GROUP; n++)
			kmem_cache_free(cache, slots[n]);
		bench_ring_took(&ring);
	}
}

static void *work(void *data)
{
	size_t thread = (size_t)((double *)data - times);
	double start;

	bench_pin(bench_cpu((unsigned int)thread));
	if (options.groups)
		kmem_group_restore_current(kmem_group_get(groups[thread % options.groups]));
	for (size_t i = 0; i < options.iterations; i++) {
		pthread_barrier_wait(&together);
		start = bench_thread_time();
		if (!options.cross)
			run_own(thread);
		else if (thread)
			consume();
		else
			produce();
		times[thread] = bench_thread_time() - start;
		pthread_barrier_wait(&together);
		if (i > 0 && !thread)
			printf("%.4f\n", (times[0] + times[1]) /
						 (double)(options.pairs * (options.cross ? 1 : 2)));
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const struct bench_option table[] = {
		{"groups", &options.groups, GROUPS_MAX, NULL, NULL},
		{"pairs", &options.pairs, SIZE_MAX, NULL, NULL},
		{"iterations", &options.iterations, SIZE_MAX, NULL, NULL},
		{"size", &options.size, 1 << 20, NULL, NULL},
		{"cross", NULL, 0, NULL, &options.cross},
		{NULL, NULL, 0, NULL, NULL},
	};
	pthread_t threads[THREADS];

	bench_parse(argc, argv, table, "Measure charging; `sheaf bench groups` runs this.\n");
	options.pairs = options.pairs / (BATCH * BENCH_GROUP) * BATCH * BENCH_GROUP;
	cache = kmem_cache_create("bench", (unsigned int)options.size, NULL,
				  SLAB_NO_MERGE | SLAB_ACCOUNT);
	for (size_t i = 0; i < options.groups; i++)
		groups[i] = kmem_group_create("bench", NULL, NULL);
	if (!cache || (options.groups && !groups[options.groups - 1]) || !options.pairs)
		fail("no memory, or too few pairs");
	pthread_barrier_init(&together, NULL, THREADS);
	for (size_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, &times[i]))
			fail("no thread");
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
