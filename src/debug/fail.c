/* SPDX-License-Identifier: MIT */
/*
 * A: allocations that fail on purpose, as with the kernel's failslab.
 *
 * Which calls fail depends on the options and on how many calls there were before, in all caches
 * with A, so a run with one thread repeats exactly. An allocation that may not fail (__GFP_NOFAIL)
 * does not.
 */
#include "debug/slab_debug.h"
#include "os/atomic.h"
#include "os/options.h"
#include "os/report.h"

static struct {
	uint64_t calls; /* so far */
	uint32_t chosen, failed;
} injected;

/* The same number for the same call: splitmix64. */
static uint64_t number_of_call(uint64_t n)
{
	uint64_t z = (n + 1) * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static bool is_chosen(void)
{
	uint64_t number = number_of_call(os_fetch_add_relaxed(&injected.calls, 1));

	if (number % 100 >= os_options.failslab_probability)
		return false;
	if ((os_fetch_add_relaxed(&injected.chosen, 1) + 1) % os_options.failslab_interval)
		return false;
	return !os_options.failslab_times ||
	       os_fetch_add_relaxed(&injected.failed, 1) < os_options.failslab_times;
}

bool debug_fails(struct slab_cache *cache, gfp_t flags)
{
	struct debug_cache *debug = debug_of(cache);

	if (!(os_load_relaxed(&debug->switched) & SLAB_FAILSLAB) || (flags & __GFP_NOFAIL) ||
	    !is_chosen())
		return false;
	if (!(flags & __GFP_NOWARN))
		os_report_once_later(&debug->failed,
				     "slab_debug: an allocation from %s fails on purpose, and more "
				     "may (slab_debug=A); further ones are not reported",
				     cache->name);
	return true;
}
