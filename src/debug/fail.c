/* SPDX-License-Identifier: MIT */
/*
 * A: allocations that fail on purpose, as with the kernel's failslab.
 *
 * Which calls fail depends on the options and on how many calls there were before, in all caches
 * with A, so a run with one thread repeats exactly. An allocation that may not fail (__GFP_NOFAIL)
 * does not.
 */
#include "debug/sample.h"
#include "debug/slab_debug.h"
#include "os/atomic.h"
#include "os/options/options.h"
#include "os/report/report.h"

static struct {
	uint64_t sequence; /* of numbers, one for each call */
	uint32_t chosen, failed;
} injected;

static bool is_chosen(void)
{
	if (sample_next(&injected.sequence) % 100 >= os_options.failslab_probability)
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
