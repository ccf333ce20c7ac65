/* SPDX-License-Identifier: MIT */
/*
 * Time, as free memory sees it: the peak of what was in use in the last `decay` milliseconds, and
 * when calls do what is due.
 *
 * Free memory that was in use in that time may stay: the peak minus what is in use now. The peak is
 * kept for each part of the time, so it ends up to one part late. Memory that is allocated and
 * freed again and again does not lift it, so it does not make older memory stay.
 *
 * Invariants
 *  DECAY-E1. peaks[0] began less than a part before the last call, the others one part earlier
 *      each. So the result does not depend on the number or the times of the calls.
 *
 * Locks: the caller's. Callers: src/page/.
 */
#ifndef SHEAF_PAGE_DECAY_H
#define SHEAF_PAGE_DECAY_H

#include <stddef.h>
#include <stdint.h>

#include "os/atomic.h"
#include "os/machine.h"
#include "os/options/options.h"

/* Half as many: memory stays for up to one and a half times as long; double: each free reads
 * double. */
#define DECAY_PARTS 4

struct decay {
	uint32_t began; /* peaks[0], in ms */
	size_t peaks[DECAY_PARTS + 1];
};

/* The most that was in use in the last `ms` milliseconds, and up to a part longer. `used`: the most
 * that was in use since the last call. In keep.c. */
size_t decay_peak(struct decay *decay, size_t used, uint32_t now, uint32_t ms);

/* The option `decay`, which may change at any time: ms for which free memory stays. DECAY_NEVER:
 * until a call returns it. */
#define DECAY_NEVER UINT32_MAX
static inline uint32_t decay_ms(void)
{
	return os_load_relaxed(&os_options.decay_never) ? DECAY_NEVER
							: os_load_relaxed(&os_options.decay);
}

static inline void decay_set_ms(uint32_t ms)
{
	if (ms != DECAY_NEVER)
		os_store_relaxed(&os_options.decay, ms);
	os_store_relaxed(&os_options.decay_never, ms == DECAY_NEVER);
}

/*
 * Time passes in the program's calls. A slow path that knows the time says so, and at the end of
 * the same or another call the layer above does what is due (src/cache/housekeeping.h). Half as
 * many milliseconds: twice as many calls pay for it; double: memory returns in larger steps.
 */
#define DECAY_TICK_MS 10

struct decay_time {
	uint32_t due;	    /* something may be due now */
	uint32_t last;	    /* when it was done last, in ms */
	uint32_t by_thread; /* a thread does it: calls return no memory */
	uint32_t left;	    /* memory that must go, after all the work of one time */
	uint32_t cpus;	    /* that ran the program in the last second */
	uint32_t set_by;    /* who set the option last: src/cache/publish.c */
};
extern struct decay_time decay_time __attribute__((visibility("hidden")));

static inline void decay_see_time(uint32_t now)
{
	if (os_unlikely(now - os_load_relaxed(&decay_time.last) >= DECAY_TICK_MS) &&
	    !os_load_relaxed(&decay_time.due))
		os_store_relaxed(&decay_time.due, 1);
}

#endif
