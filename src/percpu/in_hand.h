/* SPDX-License-Identifier: MIT */
/*
 * The in-hand count (docs/design.md, R2), for sheaves that have objects but no barn cell. A thread
 * that takes one is counted, by phase, in the slot of the CPU on which it began, until it hands the
 * sheaf over.
 *
 * A drain (drain.c) flips the phase and waits until the old phase's counts are 0 and its cells are
 * no longer in transit. It does this twice: the second time catches a thread that read the phase
 * before the first flip and showed itself after it.
 *
 * Callers: src/percpu/, src/rcu/.
 */
#ifndef SHEAF_PERCPU_IN_HAND_H
#define SHEAF_PERCPU_IN_HAND_H

#include "os/assert.h"
#include "os/atomic.h"
#include "os/machine.h"
#include "percpu/rows.h"
#include "percpu/sheaf.h"

/* For a pair of counts at this offset in each slot: increment this CPU's count of the phase. */
static inline uint32_t *in_hand_begin_phase(struct sheaf_cache *cache, size_t place, uint32_t phase)
{
	unsigned int row = os_row();
	struct slot *slot = slot_of_row(cache->at.handle, row);
	uint32_t *in_hand = (uint32_t *)((char *)slot + place) + (phase & 1);

	if (os_unlikely(!rows_is_open(slot)))
		rows_use(cache->at.handle, row);
	os_fetch_add(in_hand, 1);
	return in_hand;
}

/* Return when every CPU's count of this phase is 0. Sleeps. */
static inline void in_hand_wait_phase(struct sheaf_cache *cache, size_t place, uint32_t phase)
{
	rows_for_each (cache->at.handle, row) {
		struct slot *slot = slot_of_row(cache->at.handle, row);
		uint32_t *in_hand = (uint32_t *)((char *)slot + place) + phase;

		while (os_load_acquire(in_hand))
			os_sleep_briefly();
	}
}

/* Returns the argument for in_hand_end(). */
static inline uint32_t *in_hand_begin(struct sheaf_cache *cache)
{
	return in_hand_begin_phase(cache, offsetof(struct slot, in_hand),
				   os_load_relaxed(&cache->phase));
}

/* in_hand_begin() for sheaves of retired objects. */
static inline uint32_t *in_hand_begin_rcu(struct sheaf_cache *cache)
{
	return in_hand_begin_phase(cache, offsetof(struct slot, rcu_in_hand),
				   os_load_relaxed(&cache->rcu_phase));
}

static inline void in_hand_end(uint32_t *in_hand)
{
	/* SHEAF-H3, RCU_FREE-U2: it is still counted. */
	os_assert(os_peek(in_hand) != 0);
	os_fetch_sub(in_hand, 1);
}

/*
 * True if a drain has begun. For a caller that has just shown a sheaf in hand, by an exchange of a
 * cell or of a count. Either this call sees stop, or the drain sees the sheaf: the drain sets stop
 * before it looks. Pairs with the fence in take_slots() (drain.c).
 */
static inline bool in_hand_sees_drain(const struct sheaf_cache *cache)
{
	os_order_rmw();
	return os_load_relaxed(&cache->at.stop);
}

#endif
