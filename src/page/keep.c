/* SPDX-License-Identifier: MIT */
/* How many free pages of a node may stay; see range.h and decay.h. */
#include "page/range.h"

#include "os/atomic.h"
#include "os/options/options.h"
#include "page/map.h"

/*
 * What always stays, for programs that allocate and free a little: so many bytes, so many for each
 * CPU, and this part of the peak. With a half, a small program takes page faults in each of its
 * phases; double is memory that no program of a few MiB needs. With slub_tiny or decay=0 this part
 * of it stays.
 */
#define BOUND_BYTES ((size_t)2 << 20)
#define BOUND_CPU   ((size_t)64 << 10)
#define BOUND_PART  16
#define TINY_PART   32

/* All of it, and the rest for a while: at most this part of memory, because a program that stops
 * calling keeps it while others may need it. With double: a quarter of a machine. */
#define MOST_PART 8

struct decay_time decay_time = {.cpus = 1};

size_t decay_peak(struct decay *decay, size_t used, uint32_t now, uint32_t ms)
{
	uint32_t part = ms / DECAY_PARTS + 1;
	size_t peak = used;

	if (now - decay->began >= part) {
		uint32_t n = (now - decay->began) / part;

		for (uint32_t i = DECAY_PARTS + 1; i-- > 0;)
			decay->peaks[i] = i >= n ? decay->peaks[i - n] : 0;
		decay->began += n * part;
	}
	os_assert(now - decay->began < part); /* DECAY-E1 */
	if (decay->peaks[0] < used)
		decay->peaks[0] = used;
	for (int i = 0; i <= DECAY_PARTS; i++)
		if (peak < decay->peaks[i])
			peak = decay->peaks[i];
	return peak;
}

static size_t larger(size_t one, size_t other)
{
	return one > other ? one : other;
}

size_t keep_most(void)
{
	size_t memory = os_load_relaxed(&os.memory) >> OS_PAGE_SHIFT;

	return smaller(memory, os_load_relaxed(&page_limit.hard)) / MOST_PART / os.nr_cpu_nodes;
}

static size_t bound_of(size_t peak)
{
	size_t always = BOUND_BYTES + BOUND_CPU * os_load_relaxed(&decay_time.cpus);

	return (always >> OS_PAGE_SHIFT) / os.nr_cpu_nodes + peak / BOUND_PART;
}

size_t keep_for_return(struct range *range, uint32_t now, size_t freed)
{
	size_t used = range->used, peak, bound;

	decay_see_time(now);
	peak = decay_peak(&range->decay, used + freed, now, os_options.decay);
	bound = bound_of(peak);
	os_store_relaxed(&range->bound, bound);
	if (page_is_above_soft())
		return 0;
	if (os_options.decay_never)
		return SIZE_MAX / 2;
	if (os_options.tiny || !os_options.decay)
		return smaller(bound / TINY_PART, keep_most());
	return smaller(peak - used + bound, keep_most());
}

size_t page_bound(void)
{
	size_t pages = 0;

	for (uint32_t node = 0; node < os.nr_nodes; node++)
		pages += larger(os_load_relaxed(&ranges[node].bound),
				bound_of(os_load_relaxed(&ranges[node].used)));
	return smaller((pages << OS_PAGE_SHIFT) + map_bytes() / BOUND_PART,
		       os_load_relaxed(&os.memory) / MOST_PART);
}
