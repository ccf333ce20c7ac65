/* SPDX-License-Identifier: MIT */
/*
 * The cross benchmark: objects allocated by one thread are freed by another, through bounded rings.
 *
 * Threads work in pairs 2i and 2i + 1. producer-consumer: the even one allocates, the odd one
 * frees. symmetric: both do both, and each frees what the other allocated. The first word of every
 * object is written before it is passed on and read before it is freed.
 *
 * Prints lines for the `sheaf` command: see common/threads.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocators/allocator.h"
#include "common/common.h"
#include "common/ring.h"
#include "common/threads.h"

#define THREADS_MAX 4096
#define OBJECTS	    4096 /* per thread: those in a ring and in per-thread caches */

struct options {
	size_t threads, size, capacity, window, windows;
	bool symmetric;
	const char *variant;
};

static struct options options = {
	.threads = 2, .size = 64, .window = 3, .windows = 60, .variant = ""};
static void *context;
static struct bench_ring *rings; /* rings[i]: filled by thread i */
static unsigned int spins;

static const struct bench_option table[] = {
	{"symmetric", NULL, 0, NULL, &options.symmetric},
	{"threads", &options.threads, THREADS_MAX, NULL, NULL},
	{"size", &options.size, 1 << 20, NULL, NULL},
	{"capacity", &options.capacity, 4096, NULL, NULL},
	{"variant", NULL, 0, &options.variant, NULL},
	{"window", &options.window, 60000, NULL, NULL},
	{"windows", &options.windows, 100000, NULL, NULL},
	{NULL, NULL, 0, NULL, NULL},
};

static void parse(int argc, char **argv)
{
	bench_parse(argc, argv, table, "Measure one allocator; `sheaf bench cross` runs this.\n");
	if (options.threads % 2 || options.size < sizeof(size_t)) {
		fprintf(stderr, "%s: threads work in pairs, objects are of %zu bytes at least\n",
			argv[0], sizeof(size_t));
		exit(2);
	}
}

/* Allocate a group and pass it on; false if the ring has no room for one. */
static inline bool produce(struct bench_ring *ring)
{
	void **slots = bench_ring_room(ring);

	if (!slots)
		return false;
	for (size_t i = 0; i < BENCH_GROUP; i++) {
		size_t *object = bench_alloc(context);

		if (!object)
			bench_out_of_memory();
		*(volatile size_t *)object = i;
		slots[i] = object;
	}
	bench_ring_put(ring);
	return true;
}

/* Take a group and free it; false if there is none. */
static inline bool consume(struct bench_ring *ring)
{
	void **slots = bench_ring_group(ring);

	if (!slots)
		return false;
	for (size_t i = 0; i < BENCH_GROUP; i++) {
		size_t *object = slots[i];

		(void)*(volatile size_t *)object;
		bench_free(context, object);
	}
	bench_ring_took(ring);
	return true;
}

static void run_producer(struct bench_ring *out)
{
	unsigned int waited = 0;

	while (bench_goes_on()) {
		if (produce(out))
			waited = 0;
		else
			bench_wait(&waited, spins);
	}
}

static void run_consumer(struct bench_thread *thread, struct bench_ring *in)
{
	unsigned int waited = 0;

	while (bench_goes_on()) {
		if (consume(in)) {
			bench_did(thread, BENCH_GROUP);
			waited = 0;
		} else {
			bench_wait(&waited, spins);
		}
	}
}

static void run_both(struct bench_thread *thread, struct bench_ring *out, struct bench_ring *in)
{
	unsigned int waited = 0;

	while (bench_goes_on()) {
		bool produced = produce(out), consumed = consume(in);

		if (consumed)
			bench_did(thread, BENCH_GROUP);
		if (produced || consumed)
			waited = 0;
		else
			bench_wait(&waited, spins);
	}
}

static void run(struct bench_thread *thread)
{
	struct bench_ring *own = &rings[thread->index], *other = &rings[thread->index ^ 1];

	bench_thread_begin(thread->index);
	if (options.symmetric)
		run_both(thread, own, other);
	else if (thread->index % 2 == 0)
		run_producer(own);
	else
		run_consumer(thread, other);
}

static void prepare(unsigned int index)
{
	memset(&rings[index], 0, sizeof(rings[index]));
}

int main(int argc, char **argv)
{
	struct bench_work work = {.prepare = prepare, .run = run};

	parse(argc, argv);
	rings = bench_room(options.threads * sizeof(*rings));
	work.threads = (unsigned int)options.threads;
	spins = bench_oversubscribed(work.threads) ? 0 : BENCH_SPINS;
	bench_threads_start(&work);
	context = bench_begin(options.size, options.threads * OBJECTS, options.capacity,
			      options.variant);
	bench_threads_run(options.window, options.windows);
	return 0;
}
