/* SPDX-License-Identifier: MIT */
/*
 * The rcu benchmark: writers replace the objects of a small table that readers walk, and retire
 * each old one; new ones are allocated meanwhile. Objects are of 64 bytes.
 *
 * Writers are kept on CPUs of their own; a reader walks all tables in a read-side section, checks
 * what it sees, and sleeps PAUSE_US. A round is so many objects and then a barrier, so that what
 * waits is bounded; the first rounds are not measured. With --rate a writer retires no more than
 * that many objects a second, and nothing but that bounds what waits.
 *
 * Prints what the `sheaf` command reads, a line each: `objects` measured; `cpu` and `caller`: ns per
 * object of writers and worker, and of writers alone; `rate`: millions a second, while writers did
 * not wait for a barrier; `pending`: objects at most that were retired and not yet free; `reuse`:
 * ns from retiring to reuse that 99 of 100 objects did not exceed (with --rate); `resident`: KiB.
 */
#include "retire.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common.h"
#include "latency.h"

#define TABLE	    64 /* objects of a writer that readers see; also what is done between looks */
#define WRITERS_MAX 64
#define PAUSE_US    50
#define SLICE_NS    1000000.0 /* --rate is kept at this grain */
#define LOOK_NS	    1e6	      /* how often what waits is looked at */

struct options {
	size_t writers, readers, round, warm, rounds, rate;
	const char *way, *variant;
};

struct writer {
	_Alignas(BENCH_APART) _Atomic(struct bench_object *) table[TABLE];
	struct bench_retirer retirer;
	struct latency latency;
	double busy; /* ns, in measured rounds, barriers left out */
	unsigned int index;
	pthread_t thread;
};

static struct options options = {.writers = 1,
				 .readers = 1,
				 .round = 1 << 18,
				 .warm = 8,
				 .rounds = 8,
				 .way = "call_rcu",
				 .variant = ""};
static enum bench_way way;
static void *context;
static struct writer *writers;
static pthread_t *readers;
static pthread_barrier_t gate; /* writers and the first thread */
static atomic_size_t finished; /* writers that have */
static atomic_bool stopped, broken;

static const struct bench_option table[] = {
	{"writers", &options.writers, WRITERS_MAX, NULL, NULL},
	{"readers", &options.readers, WRITERS_MAX, NULL, NULL},
	{"round", &options.round, 1 << 24, NULL, NULL},
	{"warm", &options.warm, 100000, NULL, NULL},
	{"rounds", &options.rounds, 100000, NULL, NULL},
	{"rate", &options.rate, 1000000000, NULL, NULL},
	{"way", NULL, 0, &options.way, NULL},
	{"variant", NULL, 0, &options.variant, NULL},
	{NULL, NULL, 0, NULL, NULL},
};

static void sleep_ns(double ns)
{
	struct timespec pause = {.tv_sec = (time_t)(ns / 1e9), .tv_nsec = (long)ns % 1000000000};

	nanosleep(&pause, NULL);
}

static inline struct bench_object *new_object(uint64_t key)
{
	struct bench_object *object = bench_alloc(context);

	if (!object)
		bench_out_of_memory();
	object->key = key;
	object->check = ~key;
	return object;
}

/* Replace the whole table. `stamped`: note when each object was retired, and look when it is back. */
static inline __attribute__((always_inline)) void replace(struct writer *writer, enum bench_way how,
							  bool stamped, uint64_t key)
{
	uint64_t now = stamped ? (uint64_t)bench_time() : 0;

	for (size_t i = 0; i < TABLE; i++) {
		struct bench_object *object = new_object(key + i);
		struct bench_object *old =
			atomic_load_explicit(&writer->table[i], memory_order_relaxed);

		if (stamped) {
			latency_add(&writer->latency, object->stamp, now);
			object->stamp = 0;
			old->stamp = now;
		}
		atomic_store_explicit(&writer->table[i], object, memory_order_release);
		bench_retire(&writer->retirer, how, old);
	}
}

static __attribute__((noinline)) void run_tables(struct writer *writer, size_t tables)
{
	for (size_t i = 0; i < tables; i++) {
		uint64_t key = i * TABLE;

#define CASE(how)                                                                                  \
	case how:                                                                                  \
		replace(writer, how, false, key);                                                  \
		break
		switch (way) {
			CASE(IMMEDIATE);
			CASE(CALL_RCU);
			CASE(BATCH);
			CASE(KFREE_RCU);
			CASE(CACHE_FREE_RCU);
			CASE(MIGHTSLEEP);
		}
#undef CASE
		bench_did_retire(&writer->retirer, TABLE);
		BENCH_QUIESCENT();
	}
}

/* The same, no faster than --rate. */
static __attribute__((noinline)) void run_paced(struct writer *writer, size_t tables)
{
	double began = bench_time(), tick = 1e9 / (double)options.rate;

	for (size_t i = 0; i < tables; i++) {
		double ahead = began + (double)(i * TABLE) * tick - bench_time();

		if (ahead > SLICE_NS) {
			BENCH_OFFLINE();
			sleep_ns(ahead);
			BENCH_ONLINE();
		}
		replace(writer, way, true, i * TABLE);
		bench_did_retire(&writer->retirer, TABLE);
		BENCH_QUIESCENT();
	}
}

static void run_rounds(struct writer *writer, size_t rounds)
{
	size_t tables = options.round / TABLE;

	for (size_t i = 0; i < rounds; i++) {
		double began = bench_time();

		if (options.rate)
			run_paced(writer, tables);
		else
			run_tables(writer, tables);
		writer->busy += bench_time() - began;
		if (!options.rate)
			bench_retire_barrier(&writer->retirer, way);
	}
	bench_retire_barrier(&writer->retirer, way);
}

static void meet(void)
{
	BENCH_OFFLINE();
	pthread_barrier_wait(&gate);
	BENCH_ONLINE();
}

static void *writer_main(void *argument)
{
	struct writer *writer = argument;

	bench_pin(bench_cpu(writer->index));
	rcu_register_thread();
	bench_thread_begin(writer->index);
	for (size_t i = 0; i < TABLE; i++)
		atomic_store(&writer->table[i], new_object(i));
	meet();
	run_rounds(writer, options.warm);
	writer->busy = 0;
	latency_clear(&writer->latency);
	meet();
	meet(); /* between the two the first thread looks at the clocks */
	run_rounds(writer, options.rounds);
	atomic_fetch_add(&finished, 1);
	rcu_unregister_thread();
	pause(); /* its CPU time is still to be read; ends with the process */
	return NULL;
}

static void walk(void)
{
	rcu_read_lock();
	for (size_t w = 0; w < options.writers; w++) {
		for (size_t i = 0; i < TABLE; i++) {
			struct bench_object *object =
				atomic_load_explicit(&writers[w].table[i], memory_order_acquire);
			uint64_t key = *(volatile uint64_t *)&object->key;

			if (*(volatile uint64_t *)&object->check != ~key)
				atomic_store(&broken, true);
		}
	}
	rcu_read_unlock();
}

static void *reader_main(void *unused)
{
	(void)unused;
	rcu_register_thread();
	while (!atomic_load_explicit(&stopped, memory_order_relaxed)) {
		walk();
		BENCH_OFFLINE();
		sleep_ns(PAUSE_US * 1e3);
		BENCH_ONLINE();
	}
	rcu_unregister_thread();
	return NULL;
}

struct clocks {
	double process, readers, writers, own;
};

static double time_of(pthread_t thread)
{
	struct timespec time = {0};
	clockid_t clock;

	if (!pthread_getcpuclockid(thread, &clock))
		clock_gettime(clock, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static struct clocks look(void)
{
	struct clocks clocks = {.own = bench_thread_time(), .process = bench_process_time()};

	for (size_t i = 0; i < options.readers; i++)
		clocks.readers += time_of(readers[i]);
	for (size_t i = 0; i < options.writers; i++)
		clocks.writers += time_of(writers[i].thread);
	return clocks;
}

/* Objects retired and not yet free. */
static size_t waiting(void)
{
	size_t freed = atomic_load(&bench_freed), retired = 0;

	if (way == IMMEDIATE)
		return 0;
#ifdef BENCH_KFREE_RCU
	if (way >= KFREE_RCU)
		return bench_pending(context);
#endif
	for (size_t i = 0; i < options.writers; i++)
		retired += atomic_load(&writers[i].retirer.retired);
	return retired > freed ? retired - freed : 0; /* retired is told by tables */
}

static size_t wait_for_writers(void)
{
	size_t most = 0;

	while (atomic_load(&finished) < options.writers) {
		size_t now = waiting();

		most = now > most ? now : most;
		sleep_ns(LOOK_NS);
	}
	return most;
}

static void report(const struct clocks *from, const struct clocks *to, size_t pending)
{
	double objects =
		(double)(options.writers * options.rounds * (options.round / TABLE) * TABLE);
	double process = to->process - from->process, busy = 0;

	for (size_t i = 0; i < options.writers; i++) {
		busy += writers[i].busy / (double)options.writers;
		if (i > 0)
			latency_merge(&writers[0].latency, &writers[i].latency);
	}
	printf("objects %.0f\n", objects);
	printf("cpu %.4f\n",
	       (process - (to->readers - from->readers) - (to->own - from->own)) / objects);
	printf("caller %.4f\n", (to->writers - from->writers) / objects);
	printf("rate %.4f\n", objects / busy * 1e3);
	printf("pending %zu\n", pending);
	if (options.rate)
		printf("reuse %.0f\n", latency_percentile(&writers[0].latency, 99));
	printf("resident %zu\n", bench_resident() / 1024);
}

static void start(void)
{
	pthread_barrier_init(&gate, NULL, (unsigned int)options.writers + 1);
	for (size_t i = 0; i < options.writers; i++) {
		writers[i].index = (unsigned int)i;
		writers[i].retirer.context = context;
		if (pthread_create(&writers[i].thread, NULL, writer_main, &writers[i]))
			exit(1);
	}
	pthread_barrier_wait(&gate); /* their tables are filled */
	for (size_t i = 0; i < options.readers; i++)
		if (pthread_create(&readers[i], NULL, reader_main, NULL))
			exit(1);
}

static void parse(int argc, char **argv)
{
	bench_parse(argc, argv, table, "Measure one allocator; `sheaf bench rcu` runs this.\n");
	way = (enum bench_way)bench_choice(argv[0], options.way, bench_ways);
	if (!bench_way_known(way) || options.round < TABLE) {
		fprintf(stderr, "%s: no such way, or a round of less than %d\n", argv[0], TABLE);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	struct bench_setup setup = {.size = sizeof(struct bench_object), .cpu = bench_cpu(0)};
	struct clocks from, to;
	size_t pending;

	parse(argc, argv);
	setup.objects = options.writers * options.round;
	setup.variant = options.variant;
	writers = bench_room(options.writers * sizeof(*writers));
	readers = bench_room(options.readers * sizeof(*readers));
	context = bench_retire_context = bench_open(&setup);
	if (!context)
		return 1;
	bench_print_origin(BENCH_CALL);
	start();
	pthread_barrier_wait(&gate);
	bench_count(context, 0);
	from = look();
	pthread_barrier_wait(&gate);
	pending = wait_for_writers();
	to = look();
	bench_count(context, 1);
	atomic_store(&stopped, true);
	for (size_t i = 0; i < options.readers; i++)
		pthread_join(readers[i], NULL);
	if (atomic_load(&broken) && way != IMMEDIATE) {
		fprintf(stderr, "rcu: a reader saw an object that was used again too early\n");
		return 1;
	}
	report(&from, &to, pending);
	bench_print_counted();
	return 0;
}
