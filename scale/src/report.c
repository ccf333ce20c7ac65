/* SPDX-License-Identifier: MIT */
/*
 * See report.h.
 *
 *   cpus N, speed S              their work together, in CPUs with a core of their own
 *   operations N, seconds S      of the result's window
 *   windows N, steady 0|1
 *   moves N                      of tasks, to another CPU
 *   bytes N                      memory in use at the end: pages that were touched
 *   most N                       the most at any time of the window
 *   moved SIDE KIND N            lines from another CPU; SIDE: program, allocator
 *   from SIDE WAY N              lines by where they came from: a cost of the machine file
 *   lock NAME TAKEN WAITED WAITING HOLDING      times, times, seconds, seconds
 *   hot OFFSET LINES SECONDS     an instruction's offset in the program, what moved for it, and how
 *                                long CPUs stalled there
 *   hash H                       of the whole run
 */
#include "scale/src/report.h"

#include <inttypes.h>
#include <stdio.h>

#include "scale/src/homes.h"
#include "scale/src/tally.h"
#include "scale/src/task.h"
#include "sim/sim.h"

#define PS   1e12 /* of a second */
#define HEAT 24u  /* instructions */

extern const char __executable_start[];

static const char *const sides[] = {"program", "allocator"};

static const char *const kinds[] = {
#define X(name, what) #name,
	TALLY_KINDS(X)
#undef X
};

/* As in os/lock.h. */
static const char *const ranks[OS_RANK_MAX] = {
	[OS_RANK_KMALLOC] = "kmalloc",	   [OS_RANK_CACHES] = "caches",
	[OS_RANK_GRACE] = "grace",	   [OS_RANK_DRAIN] = "drain",
	[OS_RANK_SHARD] = "shard",	   [OS_RANK_QUEUE] = "queue",
	[OS_RANK_NODE] = "node",	   [OS_RANK_POOL] = "pool",
	[OS_RANK_PAGES] = "pages",	   [OS_RANK_MEMPOOL] = "mempool",
	[OS_RANK_SHRINKERS] = "shrinkers", [OS_RANK_GROUPS] = "groups",
	[OS_RANK_STOCKS] = "stocks",	   [OS_RANK_OWNERS] = "owners",
};

static void print_lines(const struct tally *tally)
{
	for (unsigned int side = 0; side < TALLY_NR_SIDES; side++) {
		for (unsigned int kind = 0; kind < TALLY_NR_KINDS; kind++)
			printf("moved %s %s %" PRIu64 "\n", sides[side], kinds[kind],
			       tally->moved[side][kind]);
		for (unsigned int from = MACHINE_l3; from <= MACHINE_far; from++)
			printf("from %s %s %" PRIu64 "\n", sides[side], machine_cost_name(from),
			       tally->from[side][from]);
	}
}

static void print_locks(const struct tally *tally)
{
	for (unsigned int rank = 0; rank < OS_RANK_MAX; rank++) {
		const struct tally_lock *lock = &tally->locks[rank];

		if (lock->taken)
			printf("lock %s %" PRIu64 " %" PRIu64 " %.9f %.9f\n", ranks[rank],
			       lock->taken, lock->waited, (double)lock->waiting / PS,
			       (double)lock->holding / PS);
	}
}

static void print_heat(void)
{
	struct tally_hot hot;

	/* The address is that of the next instruction. */
	for (unsigned int rank = 0; rank < HEAT && tally_hottest(rank, &hot); rank++)
		printf("hot %#" PRIxPTR " %" PRIu64 " %.9f\n",
		       hot.pc - 1 - (uintptr_t)__executable_start, hot.lines, (double)hot.ps / PS);
}

void report_print(unsigned int cpus, uint64_t window_ps)
{
	unsigned int windows;
	bool steady;
	const struct tally *tally = tally_result(&windows, &steady);

	printf("cpus %u\nspeed %.3f\n", cpus, task_speed());
	printf("operations %" PRIu64 "\nseconds %.9f\n", tally->operations, (double)window_ps / PS);
	printf("windows %u\nsteady %u\n", windows, steady);
	printf("moves %" PRIu64 "\n", task_moves());
	printf("bytes %" PRIu64 "\n", tally->pages_now << HOMES_PAGE_SHIFT);
	printf("most %" PRIu64 "\n", tally->pages_most << HOMES_PAGE_SHIFT);
	print_lines(tally);
	print_locks(tally);
	print_heat();
	printf("hash %#" PRIx64 "\n", sim_hash());
}
