/* SPDX-License-Identifier: MIT */
/*
 * How much free memory may stay for a program that soon allocates again: what was in use at its
 * peak, which decays with time, minus what is in use now.
 *
 *   free pages that stay
 *   100 % |-------.
 *         | `.    |                 1 s: 85 %      5 s: 14 %
 *         |   `.  |                 2.5 s: 48 %   10 s: 1 %     (with decay=10000)
 *         |     `.|
 *         |       `-._
 *         +------------`--------    time since the peak
 *
 * decay_kept() is the lower line of the picture. Two values follow what is used: `fast` falls
 * towards it, and `slow` falls towards `fast`. So what is left after the whole time is less than
 * one hundredth. A new peak lifts both immediately.
 *
 * The upper line is decay_lately(): a heap that is freed all together stays whole for a fifth of
 * the time, or up to a quarter longer. The two have different limits (keep.c).
 * `peaks` has what was in use at the peak of each part of that time. Memory that is allocated and
 * freed again and again does not lift these, so it does not make older memory stay.
 *
 * Invariants
 *  DECAY-E1. used <= fast <= slow, after each of these calls except decay_lately(), which uses
 *      neither.
 *  DECAY-E2. The curve depends on the time that has passed, not on the number or the times of the
 *      calls.
 *  DECAY-E3. peaks[0] began less than a part before the last call of decay_lately(), the others one
 *      part earlier each.
 *
 * Locks: the caller's. Callers: src/page/.
 */
#ifndef SHEAF_PAGE_DECAY_H
#define SHEAF_PAGE_DECAY_H

#include <stddef.h>
#include <stdint.h>

#include "os/atomic.h"
#include "os/machine.h"

/*
 * The number of steps of the curve. In each, a tenth of each distance is lost, so that 0.9 % is
 * left at the end. Half as many steps of a fifth would give the same curve, in steps of 3 % of the
 * memory; twice as many would be twice the work.
 */
#define DECAY_STEPS 64
#define DECAY_PART  10

/* The time for which everything stays, as a part of the curve's, and into how many parts it is
 * divided. Half as many: memory stays for up to 3 seconds; double: each call reads double. */
#define DECAY_LATELY	   5
#define DECAY_LATELY_PARTS 4

struct decay {
	size_t fast, slow; /* in the caller's unit */
	uint32_t since;	   /* when the last step ended, in ms */
	uint32_t began;	   /* when peaks[0] began */
	size_t peaks[DECAY_LATELY_PARTS + 1];
};

/* More may be in use now. */
static inline void decay_used(struct decay *decay, size_t used)
{
	if (decay->fast < used)
		decay->fast = used;
	if (decay->slow < used)
		decay->slow = used;
}

/* What may stay now, if `used` is in use. The whole curve takes `ms` milliseconds; 0: nothing
 * stays. */
size_t decay_kept(struct decay *decay, size_t used, uint32_t now, uint32_t ms);
/* How much was freed in the last fifth of that time and not allocated again. `before`: in use
 * before the free that calls this, or `used`. */
size_t decay_lately(struct decay *decay, size_t before, size_t used, uint32_t now, uint32_t ms);

/* Forget the peak: a curve begins now. */
void decay_forget(struct decay *decay, size_t used, uint32_t now);

/*
 * Time passes in the program's calls. A slow path that knows the time says so, and at the end of
 * the same or another call the layer above does what is due (src/cache/housekeeping.h). Half as
 * many milliseconds: twice as many calls pay for it; double: the curve has coarser steps.
 */
#define DECAY_TICK_MS 10

struct decay_time {
	uint32_t due;	    /* something may be due now */
	uint32_t last;	    /* when it was done last, in ms */
	uint32_t by_thread; /* a thread does it: calls return no memory */
	uint32_t left;	    /* memory that must go, after all the work of one time */
};
extern struct decay_time decay_time __attribute__((visibility("hidden")));

static inline void decay_see_time(uint32_t now)
{
	if (os_unlikely(now - os_load_relaxed(&decay_time.last) >= DECAY_TICK_MS) &&
	    !os_load_relaxed(&decay_time.due))
		os_store_relaxed(&decay_time.due, 1);
}

#endif
