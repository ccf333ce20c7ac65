/* SPDX-License-Identifier: MIT */
/* The curve; see decay.h. */
#include "page/decay.h"

#include "os/assert.h"

/* After this many curves, even the largest peak is forgotten. */
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

void decay_forget(struct decay *decay, size_t used, uint32_t now)
{
	*decay = (struct decay){
		.fast = used, .slow = used, .since = now, .began = now, .peaks = {used}};
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
	os_assert(used <= decay->fast && decay->fast <= decay->slow); /* DECAY-E1 */
	return decay->slow - used;
}

/* Other parts of the time begin. */
static void begin_parts(struct decay *decay, uint32_t now, uint32_t ms)
{
	uint32_t part = ms / (DECAY_LATELY * DECAY_LATELY_PARTS) + 1,
		 n = (now - decay->began) / part;

	if (!n)
		return;
	for (uint32_t i = DECAY_LATELY_PARTS + 1; i-- > 0;)
		decay->peaks[i] = i >= n ? decay->peaks[i - n] : 0;
	decay->began += n * part;
	os_assert(now - decay->began < part); /* DECAY-E3 */
}

size_t decay_lately(struct decay *decay, size_t before, size_t used, uint32_t now, uint32_t ms)
{
	size_t peak;

	begin_parts(decay, now, ms);
	if (decay->peaks[0] < before)
		decay->peaks[0] = before;
	peak = decay->peaks[0];
	for (int i = 1; i <= DECAY_LATELY_PARTS; i++)
		if (peak < decay->peaks[i])
			peak = decay->peaks[i];
	return ms && peak > used ? peak - used : 0;
}
