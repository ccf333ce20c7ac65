/* SPDX-License-Identifier: MIT */
/*
 * The batch benchmark: allocate a batch of objects, free it, repeat; objects are not touched.
 *
 * Prints lines for the `sheaf` command: a line "from LIBRARY" if the allocator is a preloaded one,
 * and then a line of nanoseconds per pair for each iteration but the first, or one line of counts.
 */
#include <stdio.h>
#include <stdlib.h>

#include "allocators/allocator.h"
#include "common/common.h"
#include "common/count.h"

#define BATCH_MAX 4096

struct options {
	size_t batch, pairs, iterations, size, capacity;
	bool shuffled, count;
	const char *variant;
};

struct job {
	size_t batch;	       /* objects allocated before they are freed */
	size_t rounds;	       /* number of batches */
	void **objects;	       /* room for a batch; a pointer, so that its address is unknown */
	const uint32_t *order; /* order of the frees; NULL: order of allocation */
};

static void *context;
static void *objects[BATCH_MAX];
static uint32_t order[BATCH_MAX];

static struct options parse(int argc, char **argv)
{
	struct options o = {
		.batch = 100, .pairs = 1000000, .iterations = 11, .size = 64, .variant = ""};
	const struct bench_option table[] = {
		{"batch", &o.batch, BATCH_MAX, NULL, NULL},
		{"shuffled", NULL, 0, NULL, &o.shuffled},
		{"pairs", &o.pairs, SIZE_MAX, NULL, NULL},
		{"iterations", &o.iterations, SIZE_MAX, NULL, NULL},
		{"size", &o.size, 1 << 20, NULL, NULL},
		{"capacity", &o.capacity, 4096, NULL, NULL},
		{"variant", NULL, 0, &o.variant, NULL},
		{"count", NULL, 0, NULL, &o.count},
		{NULL, NULL, 0, NULL, NULL},
	};

	bench_parse(
		argc, argv, table,
		"Measure one allocator; `sheaf bench batch` and `sheaf bench count` run this.\n");
	return o;
}

static __attribute__((noinline)) void run_job(const struct job *job)
{
	void *cache = context, **array = job->objects;
	const uint32_t *permutation = job->order;
	size_t batch = job->batch;

	for (size_t round = 0; round < job->rounds; round++) {
		for (size_t i = 0; i < batch; i++) {
			array[i] = bench_alloc(cache);
			OTHER_THINGS;
		}
		if (permutation) {
			for (size_t i = 0; i < batch; i++) {
				bench_free(cache, array[permutation[i]]);
				OTHER_THINGS;
			}
		} else {
			for (size_t i = 0; i < batch; i++) {
				bench_free(cache, array[i]);
				OTHER_THINGS;
			}
		}
	}
}

static void check_objects(size_t batch)
{
	for (size_t i = 0; i < batch; i++)
		if (!objects[i])
			bench_out_of_memory();
}

static struct job job_of(const struct options *options, size_t pairs)
{
	return (struct job){
		.batch = options->batch,
		.rounds = pairs < options->batch ? 1 : pairs / options->batch,
		.objects = objects,
		.order = options->shuffled ? order : NULL,
	};
}

static void open_allocator(const struct options *options)
{
	context = bench_begin(options->size, BATCH_MAX, options->capacity, options->variant);
}

static int measure(const struct options *options)
{
	struct job job = job_of(options, options->pairs);

	open_allocator(options);
	for (size_t i = 0; i < options->iterations; i++) {
		double start, end;

		bench_shuffle(order, options->batch, i + 1);
		start = bench_thread_time();
		run_job(&job);
		end = bench_thread_time();
		check_objects(options->batch);
		if (i > 0)
			printf("%.4f\n", (end - start) / (double)(job.rounds * job.batch));
	}
	return 0;
}

struct counted {
	const struct options *options;
	struct job job;
};

/* In the child: run enough rounds to warm everything up and to bring the sheaves into the same
 * state again. */
static bool prepare(void *data)
{
	struct counted *counted = data;
	struct job warm = job_of(counted->options, 100000);

	open_allocator(counted->options);
	fflush(stdout);
	bench_shuffle(order, counted->options->batch, 1);
	run_job(&warm);
	check_objects(counted->options->batch);
	return bench_make_countable();
}

static void run_counted(void *data)
{
	run_job(&((struct counted *)data)->job);
}

static int count(const struct options *options)
{
	struct counted counted = {.options = options, .job = job_of(options, options->pairs)};
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

	bench_pin(bench_cpu(0));
	return options.count ? count(&options) : measure(&options);
}
