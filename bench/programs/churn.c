/* SPDX-License-Identifier: MIT */
/*
 * The churn benchmark: free many objects, allocate as many again and touch them.
 *
 *   in-order, reverse, shuffled   all are freed, in this order relative to their allocation
 *   half                          half of them, chosen at random, are freed and allocated again
 *   exchange                      two threads; each frees what the other one allocated
 *
 * All objects are allocated and touched first. Prints a line "from LIBRARY" if the allocator is a
 * preloaded one, and then for each round lines of "free" and "again" with nanoseconds of CPU time
 * and page faults, both per object freed or allocated. With --idle, it ends after the last frees.
 * Then lines follow with the growth of resident bytes since before the allocator's first use, per
 * object: "freed", immediately; "later", after that many milliseconds and one further free;
 * "worked", after a hundredth of the objects was allocated and freed once more.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static unsigned int thread_shift;
#define BENCH_THREAD_SHIFT thread_shift /* of the harness: each thread has its objects */
#include "allocators/allocator.h"
#include "common/common.h"
#include "common/huge.h"

#define MOST	(1u << 28)
#define THREADS 2

enum order {
	IN_ORDER,
	REVERSE,
	SHUFFLED,
	HALF,
	EXCHANGE
};

static struct options {
	size_t objects, size, rounds, idle, capacity;
	const char *variant;
	enum order order;
} options = {.objects = 4 << 20, .size = 64, .rounds = 1, .variant = ""};

static void *context;
static void **objects;
static uint32_t *order; /* the order of the frees: indices of the array */

static void parse(int argc, char **argv)
{
	static const char *const orders[] = {"in-order", "reverse",  "shuffled",
					     "half",	 "exchange", NULL};
	const char *name = orders[IN_ORDER];
	const struct bench_option table[] = {
		{"objects", &options.objects, MOST, NULL, NULL},
		{"size", &options.size, 1 << 20, NULL, NULL},
		{"capacity", &options.capacity, 4096, NULL, NULL},
		{"order", NULL, 0, &name, NULL},
		{"rounds", &options.rounds, 1000, NULL, NULL},
		{"idle", &options.idle, 3600000, NULL, NULL},
		{"variant", NULL, 0, &options.variant, NULL},
		{NULL, NULL, 0, NULL, NULL},
	};

	bench_parse(argc, argv, table,
		    "order: in-order, reverse, shuffled, half or exchange; idle: milliseconds\n"
		    "Measure one allocator; `sheaf bench churn` runs this.\n");
	options.order = (enum order)bench_choice(argv[0], name, orders);
	options.objects -= options.objects % THREADS;
	if (!options.objects)
		options.objects = THREADS;
}

/* --- one thread's part ------------------------------------------------------------------------ */

struct share {
	size_t first, n;
	double time; /* ns */
	long faults;
};

static struct share now(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return (struct share){.time = bench_thread_time(), .faults = usage.ru_minflt};
}

static void add_since(struct share *share, struct share since)
{
	struct share until = now();

	share->time += until.time - since.time;
	share->faults += until.faults - since.faults;
}

static __attribute__((noinline)) void free_share(struct share *share)
{
	void **array = objects, *cache = context;
	const uint32_t *permutation = order + share->first;
	struct share start = now();

	for (size_t i = 0; i < share->n; i++) {
		bench_free(cache, array[permutation[i]]);
		OTHER_THINGS;
	}
	add_since(share, start);
}

static __attribute__((noinline)) void allocate_share(struct share *share)
{
	void **array = objects + share->first, *cache = context;
	struct share start = now();

	for (size_t i = 0; i < share->n; i++) {
		array[i] = bench_alloc(cache);
		if (!array[i])
			bench_out_of_memory();
		*(volatile char *)array[i] = 1;
		OTHER_THINGS;
	}
	add_since(share, start);
}

/* --- one thread, or two ----------------------------------------------------------------------- */

static pthread_barrier_t gate;
static void (*step)(struct share *share);
static struct share shares[THREADS];

static void *thread_main(void *share)
{
	unsigned int index = (unsigned int)((struct share *)share - shares);

	bench_pin(bench_cpu(index));
	pthread_barrier_wait(&gate); /* the allocator is ready */
	bench_thread_begin(index);
	while (true) {
		pthread_barrier_wait(&gate);
		step(share);
		pthread_barrier_wait(&gate);
	}
	return NULL;
}

static void begin_threads(void)
{
	pthread_t thread;

	pthread_barrier_init(&gate, NULL, THREADS + 1);
	for (unsigned int i = 0; i < THREADS; i++)
		if (pthread_create(&thread, NULL, thread_main, &shares[i])) {
			perror("pthread_create");
			exit(1);
		}
}

/* Do this to the first n objects, divided among the threads if there are several. */
static struct share run(void (*what)(struct share *share), size_t n)
{
	struct share sum = {.n = n};

	if (options.order != EXCHANGE) {
		what(&sum);
		return sum;
	}
	for (unsigned int i = 0; i < THREADS; i++)
		shares[i] = (struct share){.first = n / THREADS * i, .n = n / THREADS};
	step = what;
	pthread_barrier_wait(&gate);
	pthread_barrier_wait(&gate);
	for (unsigned int i = 0; i < THREADS; i++) {
		sum.time += shares[i].time;
		sum.faults += shares[i].faults;
	}
	return sum;
}

/* --- the rounds ------------------------------------------------------------------------------- */

/* A different order for each round: otherwise objects would be freed in the order of their last
 * allocation. */
static void fill_order(size_t n, size_t round)
{
	if (options.order == SHUFFLED || options.order == HALF) {
		bench_shuffle(order, n, round + 1);
		return;
	}
	for (size_t i = 0; i < n; i++)
		order[i] = (uint32_t)(options.order == IN_ORDER	 ? i
				      : options.order == REVERSE ? n - 1 - i
								 : (i + n / THREADS) % n);
}

/* Objects that are freed come first in the array, so that the next ones take their places. */
static void put_freed_first(size_t n, void **room)
{
	for (size_t i = 0; i < n; i++)
		room[i] = objects[order[i]];
	memcpy(objects, room, n * sizeof(*room));
	for (size_t i = 0; i < n; i++)
		order[i] = (uint32_t)i;
}

static void tell(const char *phase, struct share took)
{
	printf("%s %.4f %.6f\n", phase, took.time / (double)took.n,
	       (double)took.faults / (double)took.n);
}

static void tell_resident(const char *when, size_t base)
{
	printf("%s %.4f\n", when,
	       ((double)bench_resident() - (double)base) / (double)options.objects);
}

static void pause_for(size_t milliseconds)
{
	struct timespec time = {.tv_sec = (time_t)(milliseconds / 1000),
				.tv_nsec = (long)(milliseconds % 1000 * 1000000)};

	nanosleep(&time, NULL);
}

/* Memory of the benchmark's own, touched before the base is taken. */
static void *own(size_t bytes)
{
	return memset(bench_huge(bytes), 1, bytes);
}

static void run_rounds(void **room)
{
	size_t n = options.objects, freed = room ? n / 2 : n;

	for (size_t round = 0; round < options.rounds; round++) {
		fill_order(n, round);
		if (room)
			put_freed_first(n, room);
		tell("free", run(free_share, freed));
		if (round + 1 < options.rounds || !options.idle)
			tell("again", run(allocate_share, freed));
	}
}

/* The work of a program that continues. The first n places of the array are free. */
static void work(size_t n)
{
	struct share some = {.n = n};

	allocate_share(&some);
	for (size_t i = 0; i < n; i++)
		bench_free(context, objects[i]);
}

int main(int argc, char **argv)
{
	void *further, **room = NULL;
	size_t n, base;

	bench_cpu(0); /* reads which CPUs this process may use, before anything is pinned */
	parse(argc, argv);
	n = options.objects;
	while ((size_t)THREADS << thread_shift < n)
		thread_shift++;
	objects = own(n * sizeof(*objects));
	order = own(n * sizeof(*order));
	if (options.order == HALF)
		room = own(n * sizeof(*room));
	if (options.order == EXCHANGE)
		begin_threads();
	else
		bench_pin(bench_cpu(0));
	base = bench_resident();
	context = bench_begin(options.size, n, options.capacity, options.variant);
	if (options.order == EXCHANGE)
		pthread_barrier_wait(&gate);
	further = bench_alloc(context);
	run(allocate_share, n);
	run_rounds(room);
	if (options.idle) {
		tell_resident("freed", base);
		pause_for(options.idle);
		bench_free(context, further);
		tell_resident("later", base);
		work(n / 100);
		tell_resident("worked", base);
	}
	return 0;
}
