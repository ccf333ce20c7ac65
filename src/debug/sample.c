/* SPDX-License-Identifier: MIT */
/* Allocations chosen at random: samples, see sample.h, and failures, see slab_debug.h. */
#include "debug/sample.h"

#include "debug/slab_debug.h"
#include "os/assert.h"
#include "os/atomic.h"
#include "os/options/options.h"
#include "os/report/report.h"
#include "os/section.h"

#define NUMBERS 4294967296.0 /* 2^32: draw() returns one of that many */

static uint64_t drawn;

void sample_seed(uint64_t seed)
{
	os_store_relaxed(&drawn, seed);
}

uint64_t sample_next(uint64_t *sequence)
{
	const uint64_t step = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t z = os_fetch_add_relaxed(sequence, step) + step;

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static uint32_t draw(void)
{
	return (uint32_t)(sample_next(&drawn) >> 32);
}

/* ln((1 + s) / (1 - s)), 0 <= s <= 1/3: the relative error of these terms is less than 2e-5. */
static double log_of_ratio(double s)
{
	double q = s * s;

	return 2 * s * (1 + q * (1. / 3 + q * (1. / 5 + q / 7)));
}

/* -ln(x / 2^32), 0 < x <= 2^32. */
static double minus_log(uint64_t x)
{
	unsigned int exponent = 63 - (unsigned int)__builtin_clzll(x);
	double m = (double)x / (double)(UINT64_C(1) << exponent);

	return (32 - (double)exponent) * 0.69314718055994531 - log_of_ratio((m - 1) / (m + 1));
}

/* The average number of pops until one is due. */
static uint32_t mean_pops(size_t size)
{
	size_t pops = os_options.sample / size;

	return pops < 1 ? 1 : pops > SAMPLE_POPS ? SAMPLE_POPS : (uint32_t)pops;
}

/* Geometric: an exponential rounded up, whose rate is -ln(1 - 1 / mean). */
uint32_t sample_pops(size_t size)
{
	uint32_t mean = mean_pops(size);
	double pops;

	if (mean == 1)
		return 1;
	os_assert(mean > 1 && mean <= SAMPLE_POPS); /* SAMPLE-S2 */
	pops = minus_log((uint64_t)draw() + 1) / log_of_ratio(1 / (2. * mean - 1));
	os_assert(pops >= 0); /* SAMPLE-S2 */
	return pops < SHEAF_DUE ? (uint32_t)pops + 1 : (uint32_t)SHEAF_DUE + 1;
}

bool sample_due_is_taken(size_t size)
{
	double part = (double)size * mean_pops(size) / os_options.sample;

	return draw() < part * NUMBERS;
}

bool sample_is_taken(size_t bytes)
{
	return draw() < (double)bytes / os_options.sample * NUMBERS;
}

/*
 * --- A: allocations that fail on purpose, as with the kernel's failslab -------------------------
 *
 * Which calls fail depends on the options and on how many calls there were before, in all caches
 * with A, so a run with one thread repeats exactly. An allocation that may not fail (__GFP_NOFAIL)
 * does not.
 */

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
