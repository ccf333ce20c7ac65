/* SPDX-License-Identifier: MIT */
/*
 * The trim benchmark: how memory returns to the system over time. Allocate objects up to a number
 * of bytes and write to each; free most of them in random order; continue with little work, a few
 * allocations and frees ten times a second; free the rest, and continue; ask the allocator to
 * return memory; allocate again. With --sleep, the program makes no call at all in these times.
 *
 * Built for an allocator of objects of one size, or for one of any size (BENCH_SIZED): then they
 * have 16 bytes to --size, with equal numbers in each doubling.
 *
 * Prints a line "from LIBRARY" if the allocator is a preloaded one, and then lines of PHASE (grow,
 * most, rest, free, live, trim, again), how much of the phase is done (0 to 1), its seconds (of CPU
 * time; rest and live: of time), resident bytes beyond those at the start, and the longest CPU time
 * of 16 calls in ns.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef BENCH_SIZED
#include "allocators/sized.h"
#else
#include "allocators/allocator.h"
#endif
#include "common/common.h"
#include "common/huge.h"

#define LOOKS  10 /* in a phase */
#define BLOCK  16 /* calls that are timed together: one alone takes less than reading the clock */
#define LITTLE 512
#define LEAST  ((size_t)16) /* bytes of the smallest of mixed objects */

struct options {
	size_t mib, size, live, percent;
	bool sleep;
	const char *variant;
};

static struct {
	size_t n;
	void **at;
	uint32_t *order; /* in which they are freed */
	uint32_t *sizes;
} objects;

static struct {
	long resident;
	double longest, since;
} base;

#ifdef BENCH_SIZED
#define SIZE 4096

static void begin(const struct options *options)
{
	sized_start(options->variant);
}

static void *take(size_t size)
{
	return sized_alloc(size);
}

static void give(void *object)
{
	sized_free(object);
}

static void trim(void)
{
	sized_trim();
}

static uint32_t next_size(size_t most, uint64_t *state)
{
	size_t doublings = 0, from;

	while (LEAST << (doublings + 1) <= most)
		doublings++;
	from = LEAST << (doublings ? bench_random(state) % doublings : 0);
	return (uint32_t)(from + bench_random(state) % from + 1);
}
#else
#define SIZE 64

static void *context;

static void begin(const struct options *options)
{
	context = bench_begin(options->size, objects.n, 0, options->variant);
}

static void *take(size_t size)
{
	(void)size;
	return bench_alloc(context);
}

static void give(void *object)
{
	bench_free(context, object);
}

static void trim(void)
{
	bench_trim(context);
}

static uint32_t next_size(size_t most, uint64_t *state)
{
	(void)state;
	return (uint32_t)most;
}
#endif

static struct options parse(int argc, char **argv)
{
	struct options o = {.mib = 1024, .size = SIZE, .live = 30000, .percent = 95, .variant = ""};
	const struct bench_option table[] = {
		{"mib", &o.mib, 1 << 14, NULL, NULL},
		{"size", &o.size, 1 << 20, NULL, NULL},
		{"percent", &o.percent, 100, NULL, NULL},
		{"live", &o.live, 3600000, NULL, NULL},
		{"sleep", NULL, 0, NULL, &o.sleep},
		{"variant", NULL, 0, &o.variant, NULL},
		{NULL, NULL, 0, NULL, NULL},
	};

	bench_parse(argc, argv, table,
		    "mib: of objects; live: milliseconds, twice; percent: freed first; sleep: call "
		    "nothing\n"
		    "meanwhile. Measure one allocator; `sheaf bench trim` runs this.\n");
	return o;
}

/* The benchmark's own arrays are resident from the beginning. */
static void make_objects(const struct options *options)
{
	size_t bytes = options->mib << 20, most = bytes / (SIZE < LEAST ? (size_t)SIZE : LEAST);
	uint64_t state = BENCH_SEED;

	objects.sizes = bench_huge(most * sizeof(*objects.sizes));
	for (size_t sum = 0; sum < bytes; sum += objects.sizes[objects.n++])
		objects.sizes[objects.n] = next_size(options->size, &state);
	objects.at = bench_huge(objects.n * sizeof(*objects.at));
	memset(objects.at, 1, objects.n * sizeof(*objects.at));
	objects.order = bench_huge(objects.n * sizeof(*objects.order));
	bench_shuffle(objects.order, objects.n, 1);
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

static void allocate_one(size_t i)
{
	objects.at[i] = take(objects.sizes[i]);
	if (!objects.at[i])
		bench_out_of_memory();
	memset(objects.at[i], 1, objects.sizes[i]);
}

static void free_one(size_t i)
{
	give(objects.at[objects.order[i]]);
}

/* Do this with the objects that have these numbers. */
static void for_each(void (*one)(size_t), size_t from, size_t to, const char *phase)
{
	double began, seconds = 0;
	size_t i = from;

	for (unsigned int part = 1; part <= LOOKS; part++) {
		began = base.since = bench_thread_time();
		for (; i < from + (to - from) * part / LOOKS; i++) {
			one(i);
			if (i % BLOCK == 0)
				block_done();
		}
		seconds += bench_thread_time() - began;
		look(phase, (double)part / LOOKS, seconds / 1e9);
	}
}

static void work_a_little(void)
{
	void *some[LITTLE];

	for (size_t i = 0; i < LITTLE; i++) {
		some[i] = take(objects.sizes[i % objects.n]);
		if (!some[i])
			bench_out_of_memory();
		if (i % BLOCK == 0)
			block_done();
	}
	for (size_t i = 0; i < LITTLE; i++) {
		give(some[i]);
		if (i % BLOCK == 0)
			block_done();
	}
}

/* A program that continues, with little to do; measures ten times a second. */
static void live(const struct options *options, const char *phase)
{
	const struct timespec pause = {.tv_nsec = 100000000};
	double began = bench_time(), passed = 0;

	while (passed < (double)options->live * 1e6) {
		nanosleep(&pause, NULL);
		base.since = bench_thread_time();
		if (!options->sleep)
			work_a_little();
		passed = bench_time() - began;
		look(phase, passed / 1e6 / (double)options->live, passed / 1e9);
	}
}

int main(int argc, char **argv)
{
	struct options options = parse(argc, argv);
	size_t most;
	double began;

	bench_pin(bench_cpu(0));
	make_objects(&options);
	most = objects.n / 100 * options.percent;
	base.resident = bench_resident_now();
	begin(&options);
	look("grow", 0, 0);
	for_each(allocate_one, 0, objects.n, "grow");
	for_each(free_one, 0, most, "most");
	live(&options, "rest");
	for_each(free_one, most, objects.n, "free");
	live(&options, "live");
	began = bench_thread_time();
	trim();
	look("trim", 1, (bench_thread_time() - began) / 1e9);
	for_each(allocate_one, 0, objects.n, "again");
	return 0;
}
