/* SPDX-License-Identifier: MIT */
/* See tally.h. */
#include "scale/src/tally.h"

#include <stdlib.h>
#include <string.h>

#define MOST_WINDOWS 64u
#define ALIKE	     3u /* windows in a row */
#define HOT	     4096u

static uint64_t length;
static unsigned int most, complete;
static bool over, is_steady;
/* Clocks may be ahead of the earliest one: into the window after the last. */
static struct tally tallies[MOST_WINDOWS + 2];

static struct tally_hot hot[HOT];

void tally_start(uint64_t window_ps, unsigned int windows)
{
	length = window_ps;
	most = windows < MOST_WINDOWS ? windows : MOST_WINDOWS;
}

struct tally *tally_at(uint64_t ps)
{
	uint64_t window = ps / length;

	return &tallies[window <= MOST_WINDOWS ? window : MOST_WINDOWS + 1];
}

static bool same(uint64_t a, uint64_t b)
{
	uint64_t difference = a > b ? a - b : b - a;

	return a && b && difference * 100 <= TALLY_SAME * b;
}

void tally_lock_time(enum os_rank rank, bool waiting, uint64_t from, uint64_t to)
{
	while (from < to) {
		struct tally_lock *lock = &tally_at(from)->locks[rank];
		uint64_t end = (from / length + 1) * length, part = (end < to ? end : to) - from;

		if (waiting)
			lock->waiting += part;
		else
			lock->holding += part;
		from += part;
	}
}

/* Whether the last complete windows agree. */
static bool steady_now(void)
{
	for (unsigned int i = 1; i < ALIKE; i++) {
		const struct tally *later = &tallies[complete - i], *earlier = later - 1;

		if (!same(earlier->operations, later->operations) ||
		    !same(earlier->pages_now, later->pages_now))
			return false;
	}
	return true;
}

bool tally_see(uint64_t earliest, uint64_t pages_now)
{
	while (!over && earliest / length > complete) {
		struct tally *last = &tallies[complete++];

		last->pages_now = pages_now;
		if (last->pages_most < pages_now)
			last->pages_most = pages_now;
		is_steady = complete > ALIKE && steady_now();
		over = is_steady || complete >= most;
		if (!over)
			memset(hot, 0, sizeof(hot));
	}
	return !over;
}

bool tally_goes_on(void)
{
	return !over;
}

const struct tally *tally_result(unsigned int *windows, bool *steady)
{
	*windows = complete;
	*steady = is_steady;
	return &tallies[complete ? complete - 1 : 0];
}

void tally_heat(uintptr_t pc, unsigned int lines, uint64_t ps)
{
	unsigned int place = (unsigned int)(pc * UINT64_C(0x9e3779b97f4a7c15) >> 40) % HOT,
		     tried = 0;

	while (hot[place].pc && hot[place].pc != pc && tried++ < HOT)
		place = (place + 1) % HOT;
	hot[place].pc = pc;
	hot[place].lines += lines;
	hot[place].ps += ps;
}

static int hotter(const void *one, const void *other)
{
	const struct tally_hot *a = one, *b = other;

	if (a->ps != b->ps)
		return a->ps < b->ps ? 1 : -1;
	return (a->pc > b->pc) - (a->pc < b->pc);
}

bool tally_hottest(unsigned int rank, struct tally_hot *found)
{
	if (rank == 0)
		qsort(hot, HOT, sizeof(hot[0]), hotter);
	if (rank >= HOT || !hot[rank].ps)
		return false;
	*found = hot[rank];
	return true;
}
