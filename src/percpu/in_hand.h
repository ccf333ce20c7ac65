/* SPDX-License-Identifier: MIT */
/*
 * The in-hand count (docs/design.md, R2), for sheaves with objects that have no barn cell: who takes one is
 * counted, by phase, in the slot of the CPU it began on, until the sheaf is handed over.
 *
 * A drain (drain.c) turns the phase and waits for the old one, counts and cells in transit alike, twice: a
 * thread that read the phase before a turn and showed itself after it is caught by the second.
 *
 * Callers: src/percpu/, src/rcu/.
 */
#ifndef SHEAF_PERCPU_IN_HAND_H
#define SHEAF_PERCPU_IN_HAND_H

#include "os/atomic.h"
#include "os/machine.h"
#include "percpu/sheaf.h"

/* Of a pair of counts that lies so far into each slot: count this CPU's one of the phase. */
static inline uint32_t *in_hand_begin_phase(struct sheaf_cache *cache, size_t place, uint32_t phase)
{
	struct slot *slot = slot_of_row(cache->at.handle, os_row());
	uint32_t *in_hand = (uint32_t *)((char *)slot + place) + (phase & 1);

	os_fetch_add(in_hand, 1);
	return in_hand;
}

/* Return when every CPU's count of this phase is 0. Sleeps. */
static inline void in_hand_wait_phase(struct sheaf_cache *cache, size_t place, uint32_t phase)
{
	for (uint32_t row = 0; row < os.nr_rows; row++) {
		struct slot *slot = slot_of_row(cache->at.handle, row);
		uint32_t *in_hand = (uint32_t *)((char *)slot + place) + phase;

		while (os_load_acquire(in_hand))
			os_sleep_briefly();
	}
}

/* What in_hand_end() must be given. */
static inline uint32_t *in_hand_begin(struct sheaf_cache *cache)
{
	return in_hand_begin_phase(cache, offsetof(struct slot, in_hand),
				   os_load_relaxed(&cache->phase));
}

static inline void in_hand_end(uint32_t *in_hand)
{
	os_fetch_sub(in_hand, 1);
}

/*
 * Has a drain begun? For a caller that has just shown a sheaf in hand, by an exchange of a cell or of a
 * count. Either this call sees stop, or the drain sees that sheaf: the drain sets stop before it looks.
 * Pairs with the fence in take_slots() (drain.c).
 */
static inline bool in_hand_sees_drain(const struct sheaf_cache *cache)
{
	os_order_rmw();
	return os_load_relaxed(&cache->at.stop);
}

#endif
