/* SPDX-License-Identifier: MIT */
/*
 * The strand part of the rcu benchmark: objects are allocated on some CPUs and retired on another,
 * ten million of them. Objects cached for the retiring CPU must return to the allocating CPUs:
 * otherwise the process grows forever.
 *
 * Every allocating thread has a ring to the retiring one, which takes from each in turn. A barrier
 * every BARRIER objects bounds the number of objects that wait for readers. Prints lines `resident
 * DONE BYTES`: the completed part of the rounds, and the growth of the process.
 */
#include "retire.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "common/common.h"
#include "common/ring.h"

#define BARRIER	    (1u << 18)
#define LOOKS	    20
#define THREADS_MAX 64

struct options {
	size_t threads, rounds;
	const char *way, *variant;
};

static struct options options = {
	.threads = 2, .rounds = 10000000, .way = "call_rcu", .variant = ""};
static enum bench_way way;
static void *context;
static struct bench_ring *rings;
static unsigned int spins;
static size_t before; /* resident bytes */

static const struct bench_option table[] = {
	{"threads", &options.threads, THREADS_MAX, NULL, NULL},
	{"rounds", &options.rounds, SIZE_MAX, NULL, NULL},
	{"way", NULL, 0, &options.way, NULL},
	{"variant", NULL, 0, &options.variant, NULL},
	{NULL, NULL, 0, NULL, NULL},
};

/* All but the last thread allocate until the process ends. */
static void *allocate(void *argument)
{
	size_t index = (size_t)argument;
	struct bench_ring *ring = &rings[index];
	unsigned int waited = 0;

	bench_pin(bench_cpu((unsigned int)index));
	rcu_register_thread();
	bench_thread_begin((unsigned int)index);
	BENCH_OFFLINE();
	while (true) {
		void **slots = bench_ring_room(ring);

		if (!slots) {
			bench_wait(&waited, spins);
			continue;
		}
		waited = 0;
		for (size_t i = 0; i < BENCH_GROUP; i++) {
			struct bench_object *object = bench_alloc(context);

			if (!object)
				bench_out_of_memory();
			object->key = i;
			slots[i] = object;
		}
		bench_ring_put(ring);
	}
	return NULL;
}

static bool retire_group(struct bench_retirer *retirer, struct bench_ring *ring)
{
	void **slots = bench_ring_group(ring);

	if (!slots)
		return false;
	for (size_t i = 0; i < BENCH_GROUP; i++)
		bench_retire(retirer, way, slots[i]);
	bench_ring_took(ring);
	return true;
}

static void look(size_t done)
{
	printf("resident %.4f %.0f\n", (double)done / (double)options.rounds,
	       (double)bench_resident() - (double)before);
}

/* On a CPU where no thread allocates, if there is one. */
static void retire(void)
{
	struct bench_retirer retirer = {.context = context};
	size_t part = options.rounds / LOOKS, next = part, barrier = BARRIER, done = 0;
	unsigned int waited = 0;

	bench_pin(bench_cpu((unsigned int)options.threads - 1));
	look(0);
	for (size_t turn = 0; done < options.rounds; turn++) {
		if (!retire_group(&retirer, &rings[turn % (options.threads - 1)])) {
			bench_wait(&waited, spins);
			continue;
		}
		waited = 0;
		done += BENCH_GROUP;
		BENCH_QUIESCENT();
		if (done >= barrier) {
			bench_retire_barrier(&retirer, way);
			barrier += BARRIER;
		}
		if (done >= next) {
			look(next);
			next += part;
		}
	}
}

int main(int argc, char **argv)
{
	bench_parse(argc, argv, table, "Measure one allocator; `sheaf bench rcu` runs this.\n");
	way = (enum bench_way)bench_choice(argv[0], options.way, bench_ways);
	if (!bench_way_known(way) || options.threads < 2) {
		fprintf(stderr, "%s: no such way, or less than two threads\n", argv[0]);
		return 2;
	}
	spins = bench_oversubscribed((unsigned int)options.threads) ? 0 : BENCH_SPINS;
	rings = bench_room(options.threads * sizeof(*rings));
	before = bench_resident();
	context = bench_retire_context =
		bench_begin(sizeof(struct bench_object), BARRIER, 0, options.variant);
	rcu_register_thread();
	for (size_t i = 0; i + 1 < options.threads; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, allocate, (void *)i))
			return 1;
	}
	retire();
	fflush(stdout);
	_exit(0); /* the others still allocate */
}
