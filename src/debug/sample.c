/* SPDX-License-Identifier: MIT */
/* Allocations chosen at random: samples, see sample.h, and failures, see slab_debug.h. */
#include "debug/sample.h"

#include "debug/profile.h"
#include "debug/slab_debug.h"
#include "os/assert.h"
#include "os/atomic.h"
#include "os/options/options.h"
#include "os/report/report.h"
#include "os/section.h"

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

/* -ln(x / 2^32), 0 < x <= 2^32: with ln((1 + s) / (1 - s)), -1/5 <= s <= 1/7, to 1e-5 of it, also
 * where it is next to 0. */
static double minus_log(uint64_t x)
{
	unsigned int exponent = 63 - (unsigned int)__builtin_clzll(x + x / 2);
	double m = (double)x / (double)(UINT64_C(1) << exponent);
	double s = (m - 1) / (m + 1), q = s * s;

	return (32 - (double)exponent) * 0.69314718055994531 - 2 * s * (1 + q * (1. / 3 + q / 5));
}

/* How many times the average distance of samples it is to the next one. */
static double draw_distance(void)
{
	return minus_log((uint64_t)draw() + 1);
}

/* While the profile is on, samples of caches with slab_debug=S are as frequent as all others. */
static uint32_t mean_now(void)
{
	return profile_is_on() ? profile_mean() : os_options.sample;
}

/* The bytes of an object, as a part of the average distance. With slab_sample=1, each object is a
 * sample. */
static double part_of_mean(size_t size, uint32_t mean)
{
	return mean > 1 ? (double)size / mean : 100;
}

/* Geometric, as an exponential rounded up is. */
uint32_t sample_pops(size_t size)
{
	double pops = draw_distance() / part_of_mean(size, mean_now());

	os_assert(pops >= 0); /* SAMPLE-S2 */
	return pops < SHEAF_MOST_LEFT ? (uint32_t)pops + 1 : SHEAF_MOST_LEFT;
}

bool sample_is_taken(size_t bytes)
{
	return draw_distance() < part_of_mean(bytes, mean_now());
}

/* exp(-x), x >= 0: of the 1024th part by its series, to 1e-10 where the result matters. */
static double exp_minus(double x)
{
	double y = (x < 100 ? x : 100) / -1024,
	       power = 1 + y * (1 + y / 2 * (1 + y / 3 * (1 + y / 4)));

	for (int i = 0; i < 10; i++)
		power *= power;
	return power;
}

uint64_t sample_weight(size_t size, uint32_t mean)
{
	return (uint64_t)((double)size / (1 - exp_minus(part_of_mean(size, mean))));
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
