/* SPDX-License-Identifier: MIT */
/*
 * What every batch worker shares: options, pinning, the clock, and the output that the `sheaf`
 * command reads: a line "from LIBRARY" if the allocator is a preloaded one, and then a line of
 * nanoseconds per pair for each iteration but the first, or one line of counts.
 */
#include "batch.h"

#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "count.h"

struct options {
	size_t batch, pairs, iterations;
	bool shuffled, no_sheaf, count;
};

static void *objects[BATCH_MAX];
static uint32_t order[BATCH_MAX];

static _Noreturn void usage(const char *program, int status)
{
	fprintf(status ? stderr : stdout,
		"usage: %s [--batch N] [--shuffled] [--pairs N] [--iterations N] [--no-sheaf] "
		"[--count]\n"
		"Measure one allocator; `sheaf bench batch` and `sheaf bench count` run this.\n",
		program);
	exit(status);
}

static size_t number(const char *program, const char *text, size_t most)
{
	char *end;
	unsigned long long value = strtoull(text, &end, 10);

	if (*end || value < 1 || value > most) {
		fprintf(stderr, "%s: %s is not a number from 1 to %zu\n", program, text, most);
		exit(2);
	}
	return value;
}

static struct options parse(int argc, char **argv)
{
	static const struct option table[] = {
		{"batch", required_argument, NULL, 'b'},
		{"shuffled", no_argument, NULL, 's'},
		{"pairs", required_argument, NULL, 'p'},
		{"iterations", required_argument, NULL, 'i'},
		{"no-sheaf", no_argument, NULL, 'n'},
		{"count", no_argument, NULL, 'c'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	struct options options = {.batch = 100, .pairs = 1000000, .iterations = 11};
	int option;

	while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
		switch (option) {
		case 'b':
			options.batch = number(argv[0], optarg, BATCH_MAX);
			break;
		case 's':
			options.shuffled = true;
			break;
		case 'p':
			options.pairs = number(argv[0], optarg, SIZE_MAX);
			break;
		case 'i':
			options.iterations = number(argv[0], optarg, SIZE_MAX);
			break;
		case 'n':
			options.no_sheaf = true;
			break;
		case 'c':
			options.count = true;
			break;
		default:
			usage(argv[0], option == 'h' ? 0 : 2);
		}
	}
	if (optind < argc)
		usage(argv[0], 2);
	return options;
}

/* Stay on the first CPU this process may use: CPU 0, unless something forbids it. */
static int pin(void)
{
	cpu_set_t allowed;
	int cpu = 0;

	if (sched_getaffinity(0, sizeof(allowed), &allowed)) {
		perror("sched_getaffinity");
		exit(1);
	}
	while (!CPU_ISSET(cpu, &allowed))
		cpu++;
	CPU_ZERO(&allowed);
	CPU_SET(cpu, &allowed);
	if (sched_setaffinity(0, sizeof(allowed), &allowed)) {
		perror("sched_setaffinity");
		exit(1);
	}
	return cpu;
}

/* Fisher and Yates, with a xorshift generator. */
static void shuffle(size_t n, uint64_t seed)
{
	uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15);

	for (size_t i = 0; i < n; i++)
		order[i] = (uint32_t)i;
	for (size_t i = n - 1; i > 0; i--) {
		size_t j;
		uint32_t swapped = order[i];

		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		j = (state >> 11) % (i + 1);
		order[i] = order[j];
		order[j] = swapped;
	}
}

/* The time this thread has run: what it loses to other programs on a busy machine is not counted.
 */
static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void check_objects(size_t batch)
{
	for (size_t i = 0; i < batch; i++) {
		if (!objects[i]) {
			fprintf(stderr, "batch: the allocator ran out of memory\n");
			exit(1);
		}
	}
}

static struct batch_job job_of(const struct options *options, size_t pairs)
{
	return (struct batch_job){
		.batch = options->batch,
		.rounds = pairs < options->batch ? 1 : pairs / options->batch,
		.objects = objects,
		.order = options->shuffled ? order : NULL,
	};
}

static void *open_allocator(const struct options *options, int cpu)
{
	void *context = batch_allocator.open(options->no_sheaf, cpu);
	Dl_info info;

	if (!context)
		exit(1);
	if (batch_allocator.call && dladdr((void *)batch_allocator.call, &info) && info.dli_fname)
		printf("from %s\n", info.dli_fname);
	return context;
}

static int measure(const struct options *options, int cpu)
{
	void *context = open_allocator(options, cpu);
	struct batch_job job = job_of(options, options->pairs);

	for (size_t i = 0; i < options->iterations; i++) {
		double start, end;

		shuffle(options->batch, i + 1);
		start = now();
		batch_allocator.run(context, &job);
		end = now();
		check_objects(options->batch);
		if (i > 0)
			printf("%.4f\n", (end - start) / (double)(job.rounds * job.batch));
	}
	return 0;
}

struct counted {
	const struct options *options;
	int cpu;
	void *context;
	struct batch_job job;
};

/* In the child: everything warm, as many rounds as bring the sheaves back to where they were. */
static bool prepare(void *data)
{
	struct counted *counted = data;
	struct batch_job warm = job_of(counted->options, 100000);

	counted->context = open_allocator(counted->options, counted->cpu);
	fflush(stdout);
	shuffle(counted->options->batch, 1);
	batch_allocator.run(counted->context, &warm);
	check_objects(counted->options->batch);
	return !batch_allocator.make_countable || batch_allocator.make_countable();
}

static void run_counted(void *data)
{
	struct counted *counted = data;

	batch_allocator.run(counted->context, &counted->job);
}

static int count(const struct options *options, int cpu)
{
	struct counted counted = {
		.options = options,
		.cpu = cpu,
		.job = job_of(options, options->pairs),
	};
	size_t pairs = counted.job.rounds * counted.job.batch;
	struct counts counts;

	if (!count_steps(prepare, run_counted, &counted, &counts))
		return 1;
	printf("pairs %zu instructions %llu locked %llu rseq %llu tls %llu\n", pairs,
	       counts.instructions, counts.locked, counts.rseq, counts.tls);
	return 0;
}

int main(int argc, char **argv)
{
	struct options options = parse(argc, argv);
	int cpu = pin();

	return options.count ? count(&options, cpu) : measure(&options, cpu);
}
