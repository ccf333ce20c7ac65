/* SPDX-License-Identifier: MIT */
/* How much free memory of a node may stay: pages, and freed mappings; see range.h and decay.h. */
#include "page/range.h"

#include "os/atomic.h"
#include "os/options/options.h"
#include "page/map_kept.h"

/*
 * What always stays, for programs that allocate and free a little: so many bytes, so many for each
 * CPU, and this part of the peak. Sheaves may have more: with FREE_BYTES for them, programs of a
 * few MiB take up to 1.7 times the CPU time. With SHEAF_BYTES of free memory, a heap of 25 MiB that
 * grows has 7 % more resident. With slub_tiny or decay=0 this part of it stays.
 */
#define FREE_BYTES  ((size_t)512 << 10)
#define SHEAF_BYTES ((size_t)2 << 20)
#define BOUND_CPU   ((size_t)64 << 10)
#define BOUND_PART  16
#define TINY_PART   32

/*
 * Sheaves of a CPU have this more, for room that holds no object: main is rarely full, and an
 * empty one waits. Without it, 384 CPUs that each allocate and free as many bytes as the bound
 * gives them, and began one after another, have less than half of the rate; with 37 KiB, 1.6 times
 * the rate, but small programs hold more. A replaced malloc() has more: malloc/src/begin.c.
 */
size_t page_sheaves_each_cpu = 16 << 10;

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

/* The most that may stay in all. */
static size_t keep_most(void)
{
	size_t memory = os_load_relaxed(&os.memory) >> OS_PAGE_SHIFT;

	return smaller(memory, os_load_relaxed(&page_limit.hard)) / MOST_PART / os.nr_cpu_nodes;
}

static size_t bound_of(size_t bytes, size_t peak)
{
	size_t always = bytes + BOUND_CPU * os_load_relaxed(&decay_time.cpus);

	return (always >> OS_PAGE_SHIFT) / os.nr_cpu_nodes + peak / BOUND_PART;
}

/* In use on this node or free, by slabs and mappings. */
static size_t held_in(const struct range *range)
{
	return os_load_relaxed(&range->used) + os_load_relaxed(&range->dirty) +
	       (os_load_relaxed(&range->mapped) >> OS_PAGE_SHIFT);
}

static size_t free_in(const struct range *range)
{
	return os_load_relaxed(&range->dirty) +
	       (map_kept_of((unsigned int)(range - ranges)) >> OS_PAGE_SHIFT);
}

static size_t used_in(const struct range *range)
{
	size_t held = held_in(range);

	/* Without a lock, neither is exact. */
	return held - smaller(held, free_in(range));
}

/* `recent`: what is free now and was in use recently. */
static size_t most_now(size_t recent, size_t bound)
{
	if (page_is_above_soft())
		return 0;
	if (os_load_relaxed(&os_options.decay_never))
		return SIZE_MAX >> OS_PAGE_SHIFT;
	if (os_options.tiny || !os_load_relaxed(&os_options.decay))
		return smaller(bound / TINY_PART, keep_most());
	return smaller(recent + bound, keep_most());
}

size_t keep_pages(struct range *range, uint32_t now, size_t freed)
{
	size_t used = used_in(range), peak;

	decay_see_time(now);
	peak = larger(used + freed, os_exchange(&range->seen, 0));
	peak = decay_peak(&range->decay, peak, now, os_load_relaxed(&os_options.decay));
	os_store_relaxed(&range->peak, peak);
	return most_now(peak - used, bound_of(FREE_BYTES, peak));
}

size_t keep_mapped(struct range *range, size_t freed)
{
	size_t noted = os_load_relaxed(&range->seen), held = held_in(range), used, kept;
	size_t seen = larger(noted, os_load_relaxed(&range->peak));

	/* Most often it need not be known how much of that waits, but once after each round. */
	if (noted && held <= smaller(seen, most_now(seen, 0)))
		return SIZE_MAX;
	used = used_in(range);
	os_raise(&range->seen, used);
	seen = larger(seen, used);
	kept = most_now(seen - used + (freed >> OS_PAGE_SHIFT), bound_of(FREE_BYTES, seen));
	return (kept - smaller(kept, os_load_relaxed(&range->dirty))) << OS_PAGE_SHIFT;
}

size_t keep_bound(const struct range *range)
{
	return bound_of(FREE_BYTES, range->peak);
}

size_t page_bound(void)
{
	size_t pages = 0, more = page_sheaves_each_cpu * os_load_relaxed(&decay_time.cpus);

	for (uint32_t node = 0; node < os.nr_nodes; node++)
		pages += bound_of(SHEAF_BYTES, larger(os_load_relaxed(&ranges[node].peak),
						      used_in(&ranges[node])));
	return smaller((pages << OS_PAGE_SHIFT) + more, os_load_relaxed(&os.memory) / MOST_PART);
}

void keep_forget_peak(struct range *range)
{
	os_lock(&range->lock);
	os_store_relaxed(&range->peak, held_in(range));
	range->decay = (struct decay){.began = os_now_ms(), .peaks = {held_in(range)}};
	os_store_relaxed(&range->seen, 0);
	os_unlock(&range->lock);
}
