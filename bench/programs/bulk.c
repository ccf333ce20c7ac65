/* SPDX-License-Identifier: MIT */
/*
 * The bulk benchmark: arrays of objects, and fresh memory.
 *
 *   bulk-NAME transfer   get N objects as one array and put them back, again and again
 *   bulk-NAME fresh      allocate a number of bytes in all, in bulks of N or (N = 1) one by one
 *
 * Prints a line "from LIBRARY" if the allocator is a preloaded one, and then a line for each
 * iteration: nanoseconds of CPU time and page faults, both per object.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "allocators/allocator.h"
#include "common/common.h"
#include "common/huge.h"

#define BULK_MAX 4096

enum touch {
	TOUCH_NONE,
	TOUCH_FIRST,
	TOUCH_WHOLE
};

struct options {
	size_t bulk, size, iterations, capacity, total;
	enum touch touch;
	bool faulted, fresh;
	const char *variant;
};

static void *context;

static struct options parse(int argc, char **argv)
{
	static const char *const touches[] = {"none", "first", "whole", NULL};
	static const char *const parts[] = {"transfer", "fresh", NULL};
	struct options o = {
		.bulk = 32, .size = 64, .iterations = 11, .total = 256 << 20, .variant = ""};
	const char *touch = "none", *part = "transfer";
	const struct bench_option table[] = {
		{"part", NULL, 0, &part, NULL},
		{"bulk", &o.bulk, BULK_MAX, NULL, NULL},
		{"size", &o.size, 1 << 20, NULL, NULL},
		{"iterations", &o.iterations, SIZE_MAX, NULL, NULL},
		{"capacity", &o.capacity, 4096, NULL, NULL},
		{"variant", NULL, 0, &o.variant, NULL},
		{"total", &o.total, SIZE_MAX, NULL, NULL},
		{"touch", NULL, 0, &touch, NULL},
		{"faulted", NULL, 0, NULL, &o.faulted},
		{NULL, NULL, 0, NULL, NULL},
	};

	bench_parse(
		argc, argv, table,
		"part: transfer or fresh. fresh: of --total bytes; --touch none, first or whole;\n"
		"--faulted: in memory of a first round that was touched and freed, else there is\n"
		"one iteration.\n"
		"Measure one allocator; `sheaf bench bulk` runs this.\n");
	o.touch = (enum touch)bench_choice(argv[0], touch, touches);
	o.fresh = bench_choice(argv[0], part, parts) == 1;
	return o;
}

static void open_allocator(const struct options *options, size_t live)
{
	context = bench_begin(options->size, live, options->capacity, options->variant);
}

/* Time and faults since an earlier moment. */
struct moment {
	double time;
	long faults;
};

static struct moment now(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return (struct moment){.time = bench_thread_time(), .faults = usage.ru_minflt};
}

static void tell(struct moment since, struct moment until, size_t objects)
{
	printf("%.4f %.6f\n", (until.time - since.time) / (double)objects,
	       (double)(until.faults - since.faults) / (double)objects);
}

#define TRANSFERRED 1000000 /* objects per iteration */

static __attribute__((noinline)) bool transfer(void *cache, void **objects, unsigned int n,
					       size_t rounds)
{
	bool all = true;

	for (size_t round = 0; round < rounds; round++) {
		all &= bench_alloc_bulk(cache, objects, n);
		OTHER_THINGS;
		bench_free_bulk(cache, objects, n);
		OTHER_THINGS;
	}
	return all;
}

static int measure_transfer(const struct options *options)
{
	static void *objects[BULK_MAX];
	size_t rounds = TRANSFERRED / options->bulk;

	open_allocator(options, BULK_MAX);
	for (size_t i = 0; i < options->iterations; i++) {
		struct moment start = now(), end;

		if (!transfer(context, objects, (unsigned int)options->bulk, rounds))
			bench_out_of_memory();
		end = now();
		if (i > 0)
			tell(start, end, rounds * options->bulk);
	}
	return 0;
}

static inline __attribute__((always_inline)) void use(void *object, enum touch touch, size_t size)
{
	if (touch == TOUCH_FIRST)
		*(volatile char *)object = 1;
	else if (touch == TOUCH_WHOLE)
		memset(object, 1, size);
	OTHER_THINGS;
}

/* One by one; a separate loop for each kind of touch. */
static inline __attribute__((always_inline)) bool take_each(void *cache, void **objects, size_t n,
							    enum touch touch, size_t size)
{
	for (size_t i = 0; i < n; i++) {
		objects[i] = bench_alloc(cache);
		if (!objects[i])
			return false;
		use(objects[i], touch, size);
	}
	return true;
}

static __attribute__((noinline)) bool take_one_by_one(void *cache, void **objects, size_t n,
						      const struct options *options)
{
	switch (options->touch) {
	case TOUCH_NONE:
		return take_each(cache, objects, n, TOUCH_NONE, options->size);
	case TOUCH_FIRST:
		return take_each(cache, objects, n, TOUCH_FIRST, options->size);
	default:
		return take_each(cache, objects, n, TOUCH_WHOLE, options->size);
	}
}

static __attribute__((noinline)) bool take_bulks(void *cache, void **objects, size_t n,
						 const struct options *options)
{
	unsigned int bulk = (unsigned int)options->bulk;

	for (size_t i = 0; i < n; i += bulk) {
		if (!bench_alloc_bulk(cache, objects + i, bulk))
			return false;
		OTHER_THINGS;
		for (unsigned int j = 0; options->touch && j < bulk; j++)
			use(objects[i + j], options->touch, options->size);
	}
	return true;
}

static void take_all(void **objects, size_t n, const struct options *options)
{
	bool all = options->bulk == 1 ? take_one_by_one(context, objects, n, options)
				      : take_bulks(context, objects, n, options);

	if (!all)
		bench_out_of_memory();
}

/* Make the next round find all memory mapped, without data of this round. */
static void fault_all(void **objects, size_t n, const struct options *options)
{
	struct options touching = *options;

	touching.touch = TOUCH_WHOLE;
	take_all(objects, n, &touching);
}

static void free_all(void **objects, size_t n, const struct options *options)
{
	for (size_t i = 0; i < n; i += options->bulk)
		bench_free_bulk(context, objects + i, (unsigned int)options->bulk);
}

static int measure_fresh(const struct options *options)
{
	size_t n = options->total / options->size / options->bulk * options->bulk;
	size_t iterations = options->faulted ? options->iterations : 1;
	void **objects = bench_huge(n * sizeof(*objects));

	memset(objects, 1, n * sizeof(*objects));
	open_allocator(options, n);
	if (options->faulted) {
		fault_all(objects, n, options);
		free_all(objects, n, options);
	}
	for (size_t i = 0; i < iterations; i++) {
		struct moment start = now();

		take_all(objects, n, options);
		tell(start, now(), n);
		if (options->faulted)
			free_all(objects, n, options);
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct options options = parse(argc, argv);

	bench_pin(bench_cpu(0));
	return options.fresh ? measure_fresh(&options) : measure_transfer(&options);
}
