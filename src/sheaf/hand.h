/* SPDX-License-Identifier: MIT */
/*
 * The in-hand count (DESIGN R2), for sheaves with objects that have no barn cell: who takes one is
 * counted, by phase, in the slot of the CPU it began on, until the sheaf is handed over.
 *
 * hand_wait() turns the phase and waits for the old one, counts and cells in transit alike, twice:
 * a thread that read the phase before a turn and showed itself after it is caught by the second.
 *
 * Callers: src/sheaf/ only.
 */
#ifndef SHEAF_SHEAF_HAND_H
#define SHEAF_SHEAF_HAND_H

#include "os/atomic.h"
#include "os/machine.h"
#include "sheaf/sheaf.h"

/* What hand_leave() must be given. */
static inline uint32_t *hand_enter(struct sheaf_cache *cache)
{
	struct slot *slot = slot_of_row(cache->at.handle, os_row());
	uint32_t *hand = &slot->in_hand[os_load_relaxed(&cache->phase) & 1];

	os_fetch_add(hand, 1);
	return hand;
}

static inline void hand_leave(uint32_t *hand)
{
	os_fetch_sub(hand, 1);
}

/* Return when every sheaf that was in hand at the call has been handed over. Sleeps. */
void hand_wait(struct sheaf_cache *cache);

#endif
