/* SPDX-License-Identifier: MIT */
/*
 * The failing benchmark: what calls cost that fail.
 *
 *   limits    an allocation returns NULL: at its cache's limit, a group's, the process's, or where
 *             the system gives no more. With GFP_NOWAIT, with GFP_KERNEL, and with GFP_KERNEL after
 *             another cache allocated and freed an object, so that there is something to reclaim
 *   misuse    a free is refused: the first ones are reported, most of the others are left out
 *
 * Around it there are --caches other caches, each used and misused once, and --slabs partial slabs:
 * in the cache that is misused, and in the one that frees objects. Prints a line `NAME VALUE` for
 * each measurement: ns of CPU time a call.
 *
 * Built with the simulator, it prints `NAME STEPS HELD` instead: the steps of a call, and for how
 * many of them it holds one lock, which is how long another thread may wait for it.
 *
 * Of mallocs, only the large block where the system gives no more is measured.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "allocators/sized.h"

#define LARGE ((size_t)64 << 20) /* a mapping of its own, in each allocator */

static struct options {
	size_t caches, slabs;
	const char *only;
	bool misuse, sheaves;
} options = {.caches = 1, .slabs = 1, .only = ""};

static void fail(const char *what)
{
	fprintf(stderr, "failing: %s\n", what);
	exit(1);
}

#define FEW 5 /* calls, or blocks of calls; reports of a kind that are all written */

/* --- clocks ----------------------------------------------------------------------------------- */

#ifdef SHEAF_SIM
#include "os/lock.h"
#include "sim/sim.h"

/* The longest hold of a lock since the last call. */
static uint64_t longest_hold(void)
{
	uint64_t longest = 0;

	for (unsigned int rank = 0; rank < OS_RANK_MAX; rank++) {
		uint64_t steps = sim_longest_hold(rank);

		longest = steps > longest ? steps : longest;
	}
	return longest;
}

/* Of several calls the one with the fewest steps, without a round of housekeeping. */
static void measure(const char *name, void (*before)(void), void (*call)(void), bool few)
{
	uint64_t least = UINT64_MAX, held = 0;

	for (int i = 0; i < (few ? FEW : 2 * FEW); i++) {
		uint64_t began, steps, longest;

		if (before)
			before();
		longest_hold();
		began = sim_steps();
		call();
		steps = sim_steps() - began;
		longest = longest_hold();
		if (steps < least || (steps == least && longest > held))
			held = longest;
		least = steps < least ? steps : least;
	}
	printf("%s %llu %llu\n", name, (unsigned long long)least, (unsigned long long)held);
}

/* The system gives nothing, of whatever kind. */
static void refuse(int kind, bool all)
{
	(void)kind;
	sim_faults(all);
}
#else
#define BLOCK 1e6 /* ns that a block of calls takes, about */
#define MOST  10000

static double time_of(size_t n, void (*before)(void), void (*call)(void))
{
	double time = 0, began = bench_thread_time();

	if (!before) {
		for (size_t i = 0; i < n; i++)
			call();
		return bench_thread_time() - began;
	}
	for (size_t i = 0; i < n; i++) {
		before();
		began = bench_thread_time();
		call();
		time += bench_thread_time() - began;
	}
	return time;
}

static void measure(const char *name, void (*before)(void), void (*call)(void), bool few)
{
	double once = few ? BLOCK : time_of(3, before, call) / 3;
	size_t n = once * MOST < BLOCK ? MOST : once >= BLOCK ? 1 : (size_t)(BLOCK / once);

	for (int i = 0; i < FEW; i++)
		printf("%s %.2f\n", name, time_of(n, before, call) / (double)n);
}

/* RLIMIT_AS: the system gives no more addresses; RLIMIT_DATA: it makes no more of the reserved ones
 * writable. */
static void refuse(int kind, bool all)
{
	struct rlimit limit;

	if (getrlimit(kind, &limit))
		fail("getrlimit");
	limit.rlim_cur = all ? 1 << 20 : limit.rlim_max;
	if (setrlimit(kind, &limit))
		fail("setrlimit");
}
#endif

#ifdef SHEAF_SLAB_H
#include "programs/failing.h"
#else
static void large_fails(void)
{
	if (sized_pages(LARGE, 1))
		fail("a large block where the system gives none");
}

static void run(void)
{
	refuse(RLIMIT_AS, true);
	measure("addresses-GFP_KERNEL", NULL, large_fails, false);
	refuse(RLIMIT_AS, false);
}
#endif

#ifdef SHEAF_SIM
static void body(unsigned int fibre, void *unused)
{
	(void)fibre, (void)unused;
	run();
}

static void start(void)
{
	struct sim_config config = {.seed = 1,
				    .cpus = 2,
				    .nodes = 1,
				    .max_steps = UINT64_MAX,
				    /* No round of housekeeping empties caches meanwhile. */
				    .options = "slab_max_order=0;decay=never",
				    .no_memory = SIM_ALWAYS};

	config.backend = OS_BACKEND_RSEQ;
	sim_start(&config);
	sim_run(1, body, NULL);
}
#else
static void start(void)
{
	bench_pin(bench_cpu(0));
	sized_start("");
	run();
}
#endif

int main(int argc, char **argv)
{
	static char buffer[65536]; /* it is needed where the system gives no memory */
	const struct bench_option table[] = {
		{"caches", &options.caches, 100000, NULL, NULL},
		{"slabs", &options.slabs, 4000000, NULL, NULL},
		{"only", NULL, 0, &options.only, NULL},
		{"misuse", NULL, 0, NULL, &options.misuse},
		{"sheaves", NULL, 0, NULL, &options.sheaves},
		{NULL, NULL, 0, NULL, NULL},
	};

	bench_parse(
		argc, argv, table,
		"only: this kind of limit or misuse; sheaves: also where frees are refused, which\n"
		"the options must then check.\n"
		"Measure one allocator; `sheaf bench failing` runs this.\n");
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	start();
	return 0;
}
