/* SPDX-License-Identifier: MIT */
/*
 * The memory benchmark: allocate many objects one by one, touch all of each, free them or a part of
 * them in some order, do nothing for a while, free one more (further), allocate and free a
 * hundredth as many (work), ask the allocator to return memory. Resident bytes are measured all
 * along.
 *
 * Prints a line "from LIBRARY" if the allocator is a preloaded one, and then lines of PHASE (grow,
 * free, idle, further, work, trim), how much of the phase is done (0 to 1), seconds of CPU time
 * since the start, without those spent on measuring, and resident bytes beyond those at the start.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "allocators/allocator.h"
#include "common/common.h"
#include "common/huge.h"

#define LOOKS	   10 /* per phase */
#define MOST	   (1u << 28)
#define IDLE_LOOKS 4

struct options {
	size_t objects, size, idle, percent;
	const char *order, *variant;
};

static void *context;

static struct options parse(int argc, char **argv)
{
	struct options o = {.objects = 10000000,
			    .size = 64,
			    .idle = 2000,
			    .percent = 100,
			    .order = "in-order",
			    .variant = ""};
	const struct bench_option table[] = {
		{"objects", &o.objects, MOST, NULL, NULL},
		{"size", &o.size, 1 << 20, NULL, NULL},
		{"percent", &o.percent, 100, NULL, NULL},
		{"idle", &o.idle, 3600000, NULL, NULL},
		{"order", NULL, 0, &o.order, NULL},
		{"variant", NULL, 0, &o.variant, NULL},
		{NULL, NULL, 0, NULL, NULL},
	};

	bench_parse(argc, argv, table,
		    "idle: milliseconds; order: in-order, reverse, shuffled or every-second;\n"
		    "percent: of the objects that are freed\n"
		    "Measure one allocator; `sheaf bench memory` runs this.\n");
	return o;
}

static struct {
	long resident;
	double start, looking; /* ns of CPU time: at the start, and spent on measuring since then */
} base;

static void look(const char *phase, double done)
{
	double now = bench_process_time();

	printf("%s %.4f %.6f %ld\n", phase, done, (now - base.start - base.looking) / 1e9,
	       bench_resident_now() - base.resident);
	base.looking += bench_process_time() - now;
}

static void fill_order(const char *program, uint32_t *order, size_t n, const char *name)
{
	static const char *const orders[] = {"in-order", "reverse", "shuffled", "every-second",
					     NULL};
	size_t even = (n + 1) / 2;

	bench_choice(program, name, orders);
	if (!strcmp(name, "shuffled")) {
		bench_shuffle(order, n, 1);
		return;
	}
	for (size_t i = 0; i < n; i++)
		order[i] = (uint32_t)(*name == 'i'   ? i
				      : *name == 'r' ? n - 1 - i
				      : i < even     ? 2 * i
						     : 2 * (i - even) + 1);
}

/* The end of part number `part` of LOOKS parts. */
static size_t part_end(size_t n, unsigned int part)
{
	return n * (part + 1) / LOOKS;
}

static void grow(void **objects, const struct options *options)
{
	size_t i = 0;

	for (unsigned int part = 0; part < LOOKS; part++) {
		for (; i < part_end(options->objects, part); i++) {
			objects[i] = bench_alloc(context);
			if (!objects[i])
				bench_out_of_memory();
			memset(objects[i], 1, options->size);
		}
		look("grow", (part + 1.0) / LOOKS);
	}
}

static void free_first(void **objects, const uint32_t *order, size_t n)
{
	size_t i = 0;

	for (unsigned int part = 0; part < LOOKS; part++) {
		for (; i < part_end(n, part); i++)
			bench_free(context, objects[order[i]]);
		look("free", (part + 1.0) / LOOKS);
	}
}

static void idle(size_t milliseconds)
{
	long step = (long)(milliseconds * 1000000 / IDLE_LOOKS);
	struct timespec pause = {.tv_sec = step / 1000000000, .tv_nsec = step % 1000000000};

	for (unsigned int i = 0; i < IDLE_LOOKS; i++) {
		nanosleep(&pause, NULL);
		look("idle", (i + 1.0) / IDLE_LOOKS);
	}
}

/* The work of a program that continues, in places whose objects are freed. */
static void work(void **objects, const uint32_t *order, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		objects[order[i]] = bench_alloc(context);
		if (!objects[order[i]])
			bench_out_of_memory();
	}
	for (size_t i = 0; i < n; i++)
		bench_free(context, objects[order[i]]);
	look("work", 1);
}

int main(int argc, char **argv)
{
	struct options options = parse(argc, argv);
	/* Memory of the benchmark, not of the allocator: touched before the base is measured. */
	void **objects = bench_huge(options.objects * sizeof(*objects));
	uint32_t *order = bench_huge(options.objects * sizeof(*order));
	size_t freed = (size_t)((double)options.objects * (double)options.percent / 100);
	void *further;

	bench_pin(bench_cpu(0));
	memset(objects, 1, options.objects * sizeof(*objects));
	fill_order(argv[0], order, options.objects, options.order);
	base.resident = bench_resident_now();
	base.start = bench_process_time();
	context = bench_begin(options.size, options.objects, 0, options.variant);
	look("grow", 0);
	further = bench_alloc(context);
	grow(objects, &options);
	free_first(objects, order, freed);
	idle(options.idle);
	bench_free(context, further);
	look("further", 1);
	work(objects, order, freed / 100);
	bench_trim(context);
	look("trim", 1);
	return 0;
}
