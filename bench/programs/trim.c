/* SPDX-License-Identifier: MIT */
/*
 * The trim benchmark: how memory goes back over time. Allocate objects up to a number of bytes and
 * write to each; free most of them in random order; free the rest; live on with little work, a few
 * allocations and frees ten times a second; ask the allocator to return memory; allocate again.
 * With --sleep, the program calls nothing at all in the time between.
 *
 * Prints a line "from LIBRARY" if the allocator is a preloaded one, and then lines of PHASE (grow,
 * most, free, live, trim, again), how much of the phase is done (0 to 1), its seconds (of CPU time;
 * live: of time), resident bytes beyond those at the start, and the longest CPU time of 16 calls in
 * ns.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "allocators/allocator.h"
#include "common/common.h"
#include "common/huge.h"

#define LOOKS  10 /* in a phase */
#define BLOCK  16 /* calls that are timed together: one would be the clock's time */
#define LITTLE 512

struct options {
	size_t mib, size, live, percent;
	bool sleep;
	const char *variant;
};

static void *context;
static struct {
	long resident;
	double longest, since;
} base;

static struct options parse(int argc, char **argv)
{
	struct options o = {.mib = 1024, .size = 64, .live = 12000, .percent = 95, .variant = ""};
	const struct bench_option table[] = {
		{"mib", &o.mib, 1 << 14, NULL, NULL},
		{"size", &o.size, 1 << 20, NULL, NULL},
		{"percent", &o.percent, 100, NULL, NULL},
		{"live", &o.live, 3600000, NULL, NULL},
		{"sleep", NULL, 0, NULL, &o.sleep},
		{"variant", NULL, 0, &o.variant, NULL},
		{NULL, NULL, 0, NULL, NULL},
	};

	bench_parse(
		argc, argv, table,
		"mib: of objects; live: milliseconds; percent: freed first; sleep: call nothing\n"
		"meanwhile. Measure one allocator; `sheaf bench trim` runs this.\n");
	return o;
}

/* Time of a block of calls has passed. */
static void block_done(void)
{
	double now = bench_thread_time();

	if (now - base.since > base.longest)
		base.longest = now - base.since;
	base.since = now;
}

static void look(const char *phase, double done, double seconds)
{
	printf("%s %.4f %.6f %ld %.0f\n", phase, done, seconds,
	       bench_resident_now() - base.resident, base.longest);
	base.longest = 0;
	base.since = bench_thread_time();
}

static size_t part_end(size_t n, unsigned int part)
{
	return n * (part + 1) / LOOKS;
}

static void grow(void **objects, size_t n, size_t size, const char *phase)
{
	double begin, seconds = 0;
	size_t i = 0;

	for (unsigned int part = 0; part < LOOKS; part++) {
		begin = base.since = bench_thread_time();
		for (; i < part_end(n, part); i++) {
			objects[i] = bench_alloc(context);
			if (!objects[i])
				bench_out_of_memory();
			memset(objects[i], 1, size);
			if (i % BLOCK == 0)
				block_done();
		}
		seconds += bench_thread_time() - begin;
		look(phase, (part + 1.0) / LOOKS, seconds / 1e9);
	}
}

static void give(void **objects, const uint32_t *order, size_t from, size_t to, const char *phase)
{
	double begin, seconds = 0;
	size_t i = from;

	for (unsigned int part = 0; part < LOOKS; part++) {
		begin = base.since = bench_thread_time();
		for (; i < from + part_end(to - from, part); i++) {
			bench_free(context, objects[order[i]]);
			if (i % BLOCK == 0)
				block_done();
		}
		seconds += bench_thread_time() - begin;
		look(phase, (part + 1.0) / LOOKS, seconds / 1e9);
	}
}

/* A program that continues, with little to do; looks ten times a second. */
static void live(size_t milliseconds, bool sleeps)
{
	const struct timespec pause = {.tv_nsec = 100000000};
	double begin = bench_time();
	void *objects[LITTLE];

	while (bench_time() - begin < (double)milliseconds * 1e6) {
		nanosleep(&pause, NULL);
		base.since = bench_thread_time();
		for (size_t i = 0; !sleeps && i < LITTLE; i++) {
			objects[i] = bench_alloc(context);
			if (!objects[i])
				bench_out_of_memory();
			if (i % BLOCK == 0)
				block_done();
		}
		for (size_t i = 0; !sleeps && i < LITTLE; i++) {
			bench_free(context, objects[i]);
			if (i % BLOCK == 0)
				block_done();
		}
		look("live", (bench_time() - begin) / 1e6 / (double)milliseconds,
		     (bench_time() - begin) / 1e9);
	}
}

int main(int argc, char **argv)
{
	struct options options = parse(argc, argv);
	size_t n = (options.mib << 20) / options.size, most = n / 100 * options.percent;
	void **objects = bench_huge(n * sizeof(*objects));
	uint32_t *order = bench_huge(n * sizeof(*order));
	double begin;

	bench_pin(bench_cpu(0));
	memset(objects, 1, n * sizeof(*objects));
	bench_shuffle(order, n, 1);
	base.resident = bench_resident_now();
	context = bench_begin(options.size, n, 0, options.variant);
	look("grow", 0, 0);
	grow(objects, n, options.size, "grow");
	give(objects, order, 0, most, "most");
	give(objects, order, most, n, "free");
	live(options.live, options.sleep);
	begin = bench_thread_time();
	bench_trim(context);
	look("trim", 1, (bench_thread_time() - begin) / 1e9);
	grow(objects, n, options.size, "again");
	return 0;
}
