/* SPDX-License-Identifier: MIT */
/*
 * The kmalloc benchmark: replays the use of an allocator by a recorded program.
 *
 *   same               every thread replays the whole mix (common/mix.h), again and again
 *   producer-consumer  the even thread of a pair allocates the mix's sizes in their order, the
 *                      odd one frees them in that order
 *
 * The first word of every object is written when it is new and read before it is freed. Prints
 * lines for the `sheaf` command: see common/threads.h; a pair is an object that was allocated and
 * freed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocators/sized.h"
#include "common/common.h"
#include "common/mix.h"
#include "common/ring.h"
#include "common/threads.h"

#define THREADS_MAX 64
#define STRIDE	    64 /* steps between checks for the end */

struct options {
	size_t threads, objects, window, windows;
	const char *mix, *pattern, *variant;
};

enum pattern {
	SAME,
	PRODUCER_CONSUMER
};

static const char *const patterns[] = {"same", "producer-consumer", NULL};

static struct options options = {.threads = 1,
				 .objects = 50000,
				 .window = 25,
				 .windows = 12,
				 .pattern = "same",
				 .variant = ""};
static enum pattern pattern;
static struct mix mix;
static void **slots; /* mix.slots per thread */
static struct bench_ring *rings;
static unsigned int spins;

static const struct bench_option table[] = {
	{"mix", NULL, 0, &options.mix, NULL},
	{"pattern", NULL, 0, &options.pattern, NULL},
	{"threads", &options.threads, THREADS_MAX, NULL, NULL},
	{"objects", &options.objects, 1 << 24, NULL, NULL},
	{"variant", NULL, 0, &options.variant, NULL},
	{"window", &options.window, 60000, NULL, NULL},
	{"windows", &options.windows, 100000, NULL, NULL},
	{NULL, NULL, 0, NULL, NULL},
};

static inline void *new_object(size_t size)
{
	void *object = sized_alloc(size);

	if (!object)
		bench_out_of_memory();
	*(volatile size_t *)object = size;
	return object;
}

static inline void free_object(void *object)
{
	(void)*(volatile size_t *)object;
	sized_free(object);
}

static void run_same(struct bench_thread *thread)
{
	void **mine = slots + thread->index * mix.slots;

	while (bench_goes_on()) {
		for (size_t i = 0; i < mix.nr_steps; i++) {
			const struct mix_step *step = &mix.steps[i];

			if (step->size)
				mine[step->slot] = new_object(step->size);
			else
				free_object(mine[step->slot]);
			if (i % STRIDE == STRIDE - 1)
				bench_did(thread, STRIDE / 2);
		}
	}
}

/* The size of the next object, in a cycle. */
static uint32_t next_size(size_t *at)
{
	uint32_t size;

	do {
		size = mix.steps[*at].size;
		*at = *at + 1 < mix.nr_steps ? *at + 1 : 0;
	} while (!size);
	return size;
}

static void run_producer(struct bench_ring *ring)
{
	unsigned int waited = 0;
	size_t at = 0;

	while (bench_goes_on()) {
		void **room = bench_ring_room(ring);

		if (!room) {
			bench_wait(&waited, spins);
			continue;
		}
		waited = 0;
		for (size_t i = 0; i < BENCH_GROUP; i++)
			room[i] = new_object(next_size(&at));
		bench_ring_put(ring);
	}
}

static void run_consumer(struct bench_thread *thread, struct bench_ring *ring)
{
	unsigned int waited = 0;

	while (bench_goes_on()) {
		void **group = bench_ring_group(ring);

		if (!group) {
			bench_wait(&waited, spins);
			continue;
		}
		waited = 0;
		for (size_t i = 0; i < BENCH_GROUP; i++)
			free_object(group[i]);
		bench_ring_took(ring);
		bench_did(thread, BENCH_GROUP);
	}
}

static void run(struct bench_thread *thread)
{
	struct bench_ring *ring = &rings[thread->index / 2];

	if (pattern == SAME)
		run_same(thread);
	else if (thread->index % 2 == 0)
		run_producer(ring);
	else
		run_consumer(thread, ring);
}

static void prepare(unsigned int index)
{
	memset(slots + index * mix.slots, 0, mix.slots * sizeof(*slots));
}

int main(int argc, char **argv)
{
	struct bench_work work = {.prepare = prepare, .run = run};

	bench_parse(argc, argv, table, "Measure one allocator; `sheaf bench kmalloc` runs this.\n");
	pattern = (enum pattern)bench_choice(argv[0], options.pattern, patterns);
	if (!options.mix || (pattern == PRODUCER_CONSUMER && options.threads % 2)) {
		fprintf(stderr, "%s: --mix is needed; producers and consumers come in pairs\n",
			argv[0]);
		return 2;
	}
	mix_read(&mix, options.mix, options.objects);
	slots = bench_room(options.threads * mix.slots * sizeof(*slots));
	rings = bench_room(options.threads * sizeof(*rings));
	work.threads = (unsigned int)options.threads;
	spins = bench_oversubscribed(work.threads) ? 0 : BENCH_SPINS;
	bench_threads_start(&work);
	sized_start(options.variant);
	bench_threads_run(options.window, options.windows);
	return 0;
}
