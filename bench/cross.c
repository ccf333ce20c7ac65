/* SPDX-License-Identifier: MIT */
/*
 * The cross benchmark: objects allocated by one thread are freed by another, through bounded rings.
 *
 * Threads work in pairs 2i and 2i + 1. producer-consumer: the even one allocates, the odd one
 * frees. symmetric: both do both, each frees what the other allocated. The first word of every
 * object is written before it is passed on and read before it is freed.
 *
 * A ring has one producer and one consumer; each keeps to its own lines and looks at the other's
 * index only when what it saw last does not suffice, and pointers go over GROUP at a time.
 *
 * Prints what the `sheaf` command reads: see threads.h.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator.h"
#include "common.h"
#include "threads.h"

#define RING	    1024      /* pointers; a power of two */
#define GROUP	    32	      /* divides it */
#define SPINS	    (1 << 14) /* with a CPU of its own, before it is offered to others: about 1 ms */
#define THREADS_MAX 4096
#define OBJECTS	    4096 /* a thread: a ring, and what per-thread caches keep */

#if defined(__x86_64__)
#define RELAX __builtin_ia32_pause()
#elif defined(__aarch64__)
#define RELAX __asm__ volatile("yield")
#else
#define RELAX ((void)0)
#endif

struct options {
	size_t threads, size, capacity, window, windows;
	bool symmetric;
	const char *variant;
};

struct ring {
	_Alignas(BENCH_APART) atomic_size_t tail; /* pointers ever put in; the producer's */
	size_t head_seen;
	_Alignas(BENCH_APART) atomic_size_t head; /* pointers ever taken out; the consumer's */
	size_t tail_seen;
	_Alignas(BENCH_APART) void *slots[RING];
};

static struct options options = {
	.threads = 2, .size = 64, .window = 3, .windows = 60, .variant = ""};
static void *context;
static struct ring *rings; /* rings[i]: filled by thread i */
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
static inline bool produce(struct ring *ring)
{
	size_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);

	if (tail - ring->head_seen > RING - GROUP) {
		ring->head_seen = atomic_load_explicit(&ring->head, memory_order_acquire);
		if (tail - ring->head_seen > RING - GROUP)
			return false;
	}
	for (size_t i = 0; i < GROUP; i++) {
		size_t *object = bench_alloc(context);

		if (!object)
			bench_out_of_memory();
		*(volatile size_t *)object = tail + i;
		ring->slots[(tail + i) % RING] = object;
	}
	atomic_store_explicit(&ring->tail, tail + GROUP, memory_order_release);
	return true;
}

/* Take a group and free it; false if there is none. */
static inline bool consume(struct ring *ring)
{
	size_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);

	if (head == ring->tail_seen) {
		ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
		if (head == ring->tail_seen)
			return false;
	}
	for (size_t i = 0; i < GROUP; i++) {
		size_t *object = ring->slots[(head + i) % RING];

		(void)*(volatile size_t *)object;
		bench_free(context, object);
	}
	atomic_store_explicit(&ring->head, head + GROUP, memory_order_release);
	return true;
}

/* The other end is behind: wait a little, then let somebody else run. */
static inline void wait(unsigned int *waited)
{
	if ((*waited)++ < spins)
		RELAX;
	else
		sched_yield();
}

static void run_producer(struct ring *out)
{
	unsigned int waited = 0;

	while (bench_goes_on()) {
		if (produce(out))
			waited = 0;
		else
			wait(&waited);
	}
}

static void run_consumer(struct bench_thread *thread, struct ring *in)
{
	unsigned int waited = 0;

	while (bench_goes_on()) {
		if (consume(in)) {
			bench_did(thread, GROUP);
			waited = 0;
		} else {
			wait(&waited);
		}
	}
}

static void run_both(struct bench_thread *thread, struct ring *out, struct ring *in)
{
	unsigned int waited = 0;

	while (bench_goes_on()) {
		bool produced = produce(out), consumed = consume(in);

		if (consumed)
			bench_did(thread, GROUP);
		if (produced || consumed)
			waited = 0;
		else
			wait(&waited);
	}
}

static void run(struct bench_thread *thread)
{
	struct ring *own = &rings[thread->index], *other = &rings[thread->index ^ 1];

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
	struct bench_setup setup = {.cpu = bench_cpu(0)};

	parse(argc, argv);
	rings = bench_room(options.threads * sizeof(*rings));
	work.threads = (unsigned int)options.threads;
	spins = bench_oversubscribed(work.threads) ? 0 : SPINS;
	bench_threads_start(&work);
	setup.size = options.size;
	setup.objects = options.threads * OBJECTS;
	setup.capacity = (unsigned int)options.capacity;
	setup.variant = options.variant;
	context = bench_open(&setup);
	if (!context)
		return 1;
	bench_print_origin(BENCH_CALL);
	bench_threads_go();
	bench_windows((unsigned int)options.window, (unsigned int)options.windows);
	bench_threads_stop();
	return 0;
}
