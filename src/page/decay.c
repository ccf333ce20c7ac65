/* SPDX-License-Identifier: MIT */
/* The curve; see decay.h. */
#include "page/decay.h"

/* After so many curves, even the largest peak is forgotten. */
#define FORGET_CURVES 8

struct decay_time decay_time;

/* One step of a distance; the last unit is lost, too. */
static size_t lost(size_t distance)
{
	return (distance + DECAY_PART - 1) / DECAY_PART;
}

static void one_step(struct decay *decay, size_t used)
{
	decay->fast -= lost(decay->fast - used);
	decay->slow -= lost(decay->slow - decay->fast);
}

size_t decay_kept(struct decay *decay, size_t used, uint32_t now, uint32_t ms)
{
	uint64_t passed = now - decay->since, steps;

	decay_used(decay, used);
	if (!ms || passed >= (uint64_t)ms * FORGET_CURVES) {
		decay_forget(decay, used, now);
		return 0;
	}
	steps = passed * DECAY_STEPS / ms;
	/* Rounded up, so that a call does not begin the same step again. */
	decay->since += (uint32_t)((steps * ms + DECAY_STEPS - 1) / DECAY_STEPS);
	for (; steps && decay->slow > used; steps--)
		one_step(decay, used);
	return decay->slow - used;
}
