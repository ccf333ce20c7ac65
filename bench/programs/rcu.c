/* SPDX-License-Identifier: MIT */
/*
 * The rcu benchmark: writers replace the objects of a small table that readers walk, and retire
 * each old one; new ones are allocated meanwhile. Objects are of 64 bytes.
 *
 * Each writer is pinned to its own CPU; a reader walks all tables in a read-side section, checks
 * what it sees, and sleeps PAUSE_US. A round is a number of objects and then a barrier, which
 * bounds the number of waiting objects; the first rounds are not measured. With --rate, a writer
 * retires at most that many objects per second, and only the rate bounds the number of waiting
 * objects.
 *
 * Prints these lines for the `sheaf` command: `objects` measured; `cpu` and `caller`: ns per object
 * of writers and worker, and of writers alone; `rate`: millions per second, while writers did not
 * wait for a barrier; `pending`: the most objects that were retired and not yet free; `reuse`: ns
 * from retiring to reuse that 99 of 100 objects did not exceed (with --rate); `resident`: KiB.
 */
#include "writer.h"

#include <stdio.h>
#include <unistd.h>

#define WRITERS_MAX 64
#define PAUSE_US    50
#define LOOK_NS	    1e6 /* interval between readings of the number of waiting objects */

struct options {
	size_t writers, readers, round, warm, rounds, rate, capacity;
	const char *way, *variant;
};

static struct options options = {.writers = 1,
				 .readers = 1,
				 .round = 1 << 18,
				 .warm = 8,
				 .rounds = 8,
				 .way = "call_rcu",
				 .variant = ""};
static struct writer *writers;
static pthread_t *readers;
static pthread_barrier_t gate; /* writers and the first thread */
static atomic_size_t finished; /* writers that have finished */
static atomic_bool stopped, broken;

static const struct bench_option table[] = {
	{"writers", &options.writers, WRITERS_MAX, NULL, NULL},
	{"readers", &options.readers, WRITERS_MAX, NULL, NULL},
	{"round", &options.round, 1 << 24, NULL, NULL},
	{"warm", &options.warm, 100000, NULL, NULL},
	{"rounds", &options.rounds, 100000, NULL, NULL},
	{"rate", &options.rate, 1000000000, NULL, NULL},
	{"capacity", &options.capacity, 4096, NULL, NULL},
	{"way", NULL, 0, &options.way, NULL},
	{"variant", NULL, 0, &options.variant, NULL},
	{NULL, NULL, 0, NULL, NULL},
};

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
	meet(); /* between the two meetings the first thread reads the clocks */
	run_rounds(writer, options.rounds);
	atomic_fetch_add(&finished, 1);
	rcu_unregister_thread();
	pause(); /* its CPU time must still be read; ends with the process */
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

	if (job.way == IMMEDIATE)
		return 0;
#ifdef BENCH_KFREE_RCU
	if (job.way >= KFREE_RCU)
		return bench_pending(job.context);
#endif
	for (size_t i = 0; i < options.writers; i++)
		retired += atomic_load(&writers[i].retirer.retired);
	return retired > freed ? retired - freed : 0; /* writers publish `retired` once per table */
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
		writers[i].retirer.context = job.context;
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
	job.way = (enum bench_way)bench_choice(argv[0], options.way, bench_ways);
	if (!bench_way_known(job.way) || options.round < TABLE) {
		fprintf(stderr, "%s: no such way, or a round of less than %d\n", argv[0], TABLE);
		exit(2);
	}
	job.round = options.round;
	job.rate = options.rate;
}

int main(int argc, char **argv)
{
	struct clocks from, to;
	size_t pending;

	parse(argc, argv);
	writers = bench_room(options.writers * sizeof(*writers));
	readers = bench_room(options.readers * sizeof(*readers));
	job.context = bench_retire_context =
		bench_begin(sizeof(struct bench_object), options.writers * options.round,
			    (unsigned int)options.capacity, options.variant);
	start();
	pthread_barrier_wait(&gate);
	bench_count(job.context, 0);
	from = look();
	pthread_barrier_wait(&gate);
	pending = wait_for_writers();
	to = look();
	bench_count(job.context, 1);
	atomic_store(&stopped, true);
	for (size_t i = 0; i < options.readers; i++)
		pthread_join(readers[i], NULL);
	if (atomic_load(&broken) && job.way != IMMEDIATE) {
		fprintf(stderr, "rcu: a reader saw an object that was used again too early\n");
		return 1;
	}
	report(&from, &to, pending);
	bench_print_counted();
	return 0;
}
