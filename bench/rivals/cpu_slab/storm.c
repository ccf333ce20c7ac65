/* SPDX-License-Identifier: MIT */
/*
 * The storm on the baseline: threads that allocate, free, hand objects to each other and change
 * CPUs, singly and in bulk, while a timer's signals abort their sections.
 *
 * Every live object carries a stamp in its first word (which a link overwrites when it is free) and
 * the stamp's complement in its last: a thread that gets an object with such a pair has found a
 * double allocation; one that frees an object without it has found a write by another owner. At the
 * end everything is freed: trim must leave no slab, and the counters must balance.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "cpu_slab.h"
#include "kit/objects.h"
#include "kit/random.h"

enum {
	NR_THREADS = 6,
	NR_CACHES = 6,
	MAX_HELD = 900,
	MAX_BULK = 150,
	NR_BOXES = 64
};

struct worker {
	pthread_t thread;
	unsigned int number;
	uint64_t seed, sequence, allocated, freed;
	unsigned int held[NR_CACHES];
	uint64_t *objects[NR_CACHES][MAX_HELD];
};

static const size_t sizes[NR_CACHES] = {16, 64, 64, 200, 1024, 4096};
static const unsigned int flags[NR_CACHES] = {
	CPU_SLAB_COUNTED, 0, CPU_SLAB_DEFERRED, CPU_SLAB_COUNTED | CPU_SLAB_DEFERRED,
	CPU_SLAB_COUNTED, 0};
static struct cpu_slab *caches[NR_CACHES];
static uint64_t allocated[NR_CACHES], freed[NR_CACHES];
static uint64_t *boxes[NR_CACHES][NR_BOXES]; /* objects on their way to another thread */
static int running = 1;
static cpu_set_t allowed;

static _Noreturn void fail(const char *what, unsigned int c, const void *object)
{
	fprintf(stderr, "cpu-slab-storm: %s: object %p of %zu bytes, cache %u\n", what, object,
		sizes[c], c);
	abort();
}

static void stamp(struct worker *w, unsigned int c, uint64_t *object)
{
	if (!object || (uintptr_t)object % 8)
		fail("no object", c, object);
	if (!stamp_put(object, sizes[c], w->number, w->sequence++))
		fail("handed out twice", c, object);
	w->objects[c][w->held[c]++] = object;
	__atomic_fetch_add(&allocated[c], 1, __ATOMIC_RELAXED);
}

static uint64_t *unstamp(unsigned int c, uint64_t *object)
{
	if (!stamp_remove(object, sizes[c]))
		fail("overwritten while live", c, object);
	__atomic_fetch_add(&freed[c], 1, __ATOMIC_RELAXED);
	return object;
}

static uint64_t *pick(struct worker *w, unsigned int c)
{
	unsigned int i = random_below(&w->seed, w->held[c]);
	uint64_t *object = w->objects[c][i];

	w->objects[c][i] = w->objects[c][--w->held[c]];
	return object;
}

static void take(struct worker *w, unsigned int c, unsigned int n)
{
	void *objects[MAX_BULK];

	for (unsigned int i = 0; i < n && w->held[c] < MAX_HELD; i++)
		stamp(w, c, cpu_slab_alloc(caches[c]));
	if (w->held[c] + n > MAX_HELD)
		return;
	if (!cpu_slab_alloc_bulk(caches[c], objects, n))
		fail("no memory", c, NULL);
	for (unsigned int i = 0; i < n; i++)
		stamp(w, c, objects[i]);
}

static void give(struct worker *w, unsigned int c, unsigned int n)
{
	void *objects[MAX_BULK];
	unsigned int held;

	for (unsigned int i = 0; i < n && w->held[c]; i++)
		cpu_slab_free(caches[c], unstamp(c, pick(w, c)));
	for (held = 0; held < n && w->held[c]; held++)
		objects[held] = unstamp(c, pick(w, c));
	cpu_slab_free_bulk(caches[c], objects, held);
}

/* Put an object into a box; free the one that was there, most likely from another CPU. */
static void send(struct worker *w, unsigned int c)
{
	uint64_t **box = &boxes[c][random_below(&w->seed, NR_BOXES)], *object;

	if (!w->held[c])
		return;
	object = __atomic_exchange_n(box, pick(w, c), __ATOMIC_ACQ_REL);
	if (object)
		cpu_slab_free(caches[c], unstamp(c, object));
}

static void change_cpu(struct worker *w)
{
	int cpu = (int)random_below(&w->seed, (unsigned int)sysconf(_SC_NPROCESSORS_CONF));
	cpu_set_t only;

	if (!CPU_ISSET(cpu, &allowed))
		return;
	CPU_ZERO(&only);
	CPU_SET(cpu, &only);
	sched_setaffinity(0, sizeof(only), &only);
}

static void *work(void *data)
{
	struct worker *w = data;

	while (__atomic_load_n(&running, __ATOMIC_RELAXED)) {
		unsigned int c = random_below(&w->seed, NR_CACHES);
		unsigned int n = random_below(&w->seed, random_below(&w->seed, 8) ? 8 : MAX_BULK);

		switch (random_below(&w->seed, 4)) {
		case 0:
			take(w, c, n);
			break;
		case 1:
			give(w, c, n);
			break;
		default:
			for (; n; n--)
				send(w, c);
		}
		if (!random_below(&w->seed, 64))
			change_cpu(w);
	}
	return NULL;
}

static void on_signal(int signal)
{
	(void)signal;
}

static void start_signals(void)
{
	const struct itimerval often = {{0, 500}, {0, 500}};
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
}

/* More slabs, so that lists overflow and slabs are returned: fill up, free every other object, then
 * the rest. */
static void tide(struct worker *w, unsigned int c)
{
	enum {
		TIDE = 20000
	};
	static uint64_t *flood[TIDE];

	for (unsigned int i = 0; i < TIDE; i++) {
		w->held[c] = 0;
		flood[i] = cpu_slab_alloc(caches[c]);
		stamp(w, c, flood[i]);
	}
	w->held[c] = 0;
	for (unsigned int i = 0; i < 2 * TIDE; i++)
		if (i % 2 == i / TIDE)
			cpu_slab_free(caches[c], unstamp(c, flood[i % TIDE]));
}

static uint64_t counter(unsigned int c, enum cpu_slab_counter which)
{
	return cpu_slab_counter(caches[c], which);
}

#define WANT(condition)                                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			fail("not so: " #condition, c, NULL);                                      \
	} while (0)

static void check_empty(unsigned int c)
{
	WANT(allocated[c] == freed[c]);
	WANT(cpu_slab_trim(caches[c]) == 0);
	if (!(flags[c] & CPU_SLAB_COUNTED))
		return;
	WANT(counter(c, CPU_SLAB_alloc_fastpath) + counter(c, CPU_SLAB_alloc_slowpath) ==
	     allocated[c]);
	WANT(counter(c, CPU_SLAB_free_fastpath) + counter(c, CPU_SLAB_free_slowpath) == freed[c]);
	WANT(counter(c, CPU_SLAB_alloc_fastpath) > 0 && counter(c, CPU_SLAB_free_fastpath) > 0);
	WANT(counter(c, CPU_SLAB_free_frozen) > 0);
	/* Otherwise it depends on the other CPUs. */
	WANT(!(flags[c] & CPU_SLAB_DEFERRED) || counter(c, CPU_SLAB_alloc_refill) > 0);
	WANT(counter(c, CPU_SLAB_cpu_partial_free) > 0 &&
	     counter(c, CPU_SLAB_cpu_partial_alloc) > 0);
	WANT(counter(c, CPU_SLAB_cpu_partial_drain) > 0);
	WANT(counter(c, CPU_SLAB_alloc_from_partial) > 0 &&
	     counter(c, CPU_SLAB_cpu_partial_node) > 0);
	WANT(counter(c, CPU_SLAB_free_slab) > 0 &&
	     counter(c, CPU_SLAB_free_slab) <= counter(c, CPU_SLAB_alloc_slab));
}

static void show(unsigned int c)
{
#define SHOW(name) printf(" " #name " %llu", (unsigned long long)counter(c, CPU_SLAB_##name));
	if (!(flags[c] & CPU_SLAB_COUNTED))
		return;
	printf("%zu bytes:", sizes[c]);
	CPU_SLAB_COUNTERS(SHOW)
	printf("\n");
#undef SHOW
}

int main(int argc, char **argv)
{
	struct timespec seconds = {.tv_sec = argc > 1 ? atoi(argv[1]) : 1};
	static struct worker workers[NR_THREADS];

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return 1;
	for (unsigned int c = 0; c < NR_CACHES; c++) {
		caches[c] = cpu_slab_create(sizes[c], flags[c]);
		if (!caches[c])
			fail("no cache", c, NULL);
	}
	start_signals();
	for (unsigned int i = 0; i < NR_THREADS; i++) {
		workers[i] = (struct worker){.number = i, .seed = i * 0x9e3779b97f4a7c15u + 1};
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			return 1;
	}
	while (nanosleep(&seconds, &seconds))
		; /* a signal */
	__atomic_store_n(&running, 0, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < NR_THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	for (unsigned int c = 0; c < NR_CACHES; c++) {
		for (unsigned int i = 0; i < NR_THREADS; i++)
			while (workers[i].held[c])
				give(&workers[i], c, 1);
		for (unsigned int i = 0; i < NR_BOXES; i++)
			if (boxes[c][i])
				cpu_slab_free(caches[c], unstamp(c, boxes[c][i]));
		tide(&workers[0], c);
		tide(&workers[0], c); /* from the state that the first one left in every tier */
		show(c);
		check_empty(c);
	}
	return 0;
}
