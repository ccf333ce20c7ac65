/* SPDX-License-Identifier: MIT */
/*
 * What a drain takes from a slot (drain.c), of freed or of retired objects, and the way back. A
 * sheaf that was taken remembers its row and its place in the slot.
 *
 *  1. A slot always holds sheaves, of which the bootstrap sheaf is one: others may read it at
 *     any time (view_slot).
 *  2. Only the drain calls these, while its stop word is set and all older sections have ended, or,
 *     on the trylock backend, with the slot locked; or a child of fork(), which has one thread.
 */
#include "os/assert.h"
#include "os/atomic.h"
#include "percpu/drain.h"
#include "percpu/remote.h"
#include "percpu/rows.h"

static void push_taken(struct sheaf **list, struct sheaf *sheaf, unsigned int row,
		       unsigned int place)
{
	if (!sheaf || sheaf == &sheaf_bootstrap)
		return;
	os_store_relaxed(&sheaf->taken_from, (uint64_t)row * TAKEN_PLACES + place);
	sheaf->next = *list;
	*list = sheaf;
}

/*
 * Make these the slot's two sheaves. Others may read a slot at any time (view_slot). Each of
 * these stores is one that a section could make (SECTION-S2), so they never see a pointer that is
 * not a sheaf.
 */
static void exchange(struct slot *slot, struct sheaf *m, struct sheaf *spare)
{
	uintptr_t was = (uintptr_t)os_load_relaxed(&slot->main);

	/* SECTION-S1, and SHEAF-H1 */
	os_assert(was && m && m != spare);
	os_store_release(&slot->pair, was ^ (uintptr_t)m);
	os_store_release(&slot->main, m);
	os_store_release(&slot->pair, (uintptr_t)m ^ (uintptr_t)spare);
}

static void take_remote(struct slot *slot, unsigned int row, struct sheaf **list, bool retired)
{
	for (unsigned int i = 0; i < slot_remotes(); i++) {
		struct sheaf *sheaf = slot_remote(slot, i, retired);

		if (!sheaf)
			continue;
		/* REMOTE-M1, REMOTE-M3: one that drains and sections agree about. */
		os_assert(remote_is_right(sheaf, retired));
		os_store_release(&slot->cells[slot_remote_cell(i)], 0);
		push_taken(list, sheaf, row, TAKEN_REMOTE + i);
	}
}

static void take_main_and_spare(struct slot *slot, unsigned int row, struct sheaf **list)
{
	struct sheaf *m = os_load_relaxed(&slot->main), *spare = slot_spare(slot);

	if (m == &sheaf_bootstrap && !spare)
		return;
	exchange(slot, &sheaf_bootstrap, NULL);
	push_taken(list, m, row, TAKEN_MAIN);
	push_taken(list, spare, row, TAKEN_SPARE);
}

static void take_rcu_free(struct slot *slot, unsigned int row, struct sheaf **list)
{
	struct sheaf *sheaf = os_load_relaxed(&slot->rcu_free);

	/* SECTION-S1 */
	os_assert(sheaf != NULL);
	if (sheaf == &sheaf_bootstrap)
		return;
	os_store_release(&slot->rcu_free, &sheaf_bootstrap);
	push_taken(list, sheaf, row, TAKEN_MAIN);
}

void taken_take(struct slot *slot, unsigned int row, struct sheaf **list, bool retired)
{
	take_remote(slot, row, list, retired);
	(retired ? take_rcu_free : take_main_and_spare)(slot, row, list);
}

void taken_put_back(struct slot *slot, struct sheaf *sheaf, bool retired)
{
	unsigned int place = taken_place_of(sheaf);

	if (place >= TAKEN_REMOTE) {
		os_store_relaxed(&sheaf->filled_by,
				 remote_kind(page_node(sheaf->objects[0]), retired) + 1);
		os_store_release(&slot->cells[slot_remote_cell(place - TAKEN_REMOTE)],
				 (uintptr_t)sheaf);
		return;
	}
	if (retired) {
		os_store_release(&slot->rcu_free, sheaf);
		return;
	}
	/* Set by a refill: the CPU that filled it is forgotten. */
	os_store_relaxed(&sheaf->taken_from, 0);
	if (place == TAKEN_SPARE)
		exchange(slot, os_load_relaxed(&slot->main), sheaf);
	else
		exchange(slot, sheaf, slot_spare(slot));
}
