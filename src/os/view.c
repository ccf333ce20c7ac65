/* SPDX-License-Identifier: MIT */
/* Slots as other threads see them; see view.h. */
#include "os/view.h"

#include "os/atomic.h"
#include "os/counters.h"
#include "os/machine.h"

#define LOOKS                                                                                      \
	64 /* tries for a consistent copy: it fails only if others change the slot during each */

static bool peek(const struct slot *slot, const struct sheaf **m, const struct sheaf **spare)
{
	uintptr_t pair;

	*m = os_load_acquire(&slot->main);
	pair = os_load_acquire(&slot->pair);
	*spare = (const struct sheaf *)(pair ^ (uintptr_t)*m);
	/* The two words change one at a time: combined from two moments they would name a sheaf
	 * that never existed. */
	return os_load_acquire(&slot->main) == *m && os_load_acquire(&slot->pair) == pair;
}

/* The sheaf may be freed or reused meanwhile: the slot has then changed as well. */
OS_NO_TSAN bool view_slot(const struct slot *slot, struct slot_view *view)
{
	const struct sheaf *m, *spare, *m_after, *spare_after;

	if (!peek(slot, &m, &spare))
		return false;
	view->main = os_load_relaxed(&m->word);
	view->main_base = os_load_relaxed(&m->base);
	view->spare = spare ? os_load_relaxed(&spare->word) : 0;
	view->spare_base = spare ? os_load_acquire(&spare->base) : 0;
	return peek(slot, &m_after, &spare_after) && m == m_after && spare == spare_after;
}

static void store(struct slot *slot, const struct slot_view *view)
{
	uint64_t *shown = (uint64_t *)os_counter(slot, OS_SHOWN_MAIN);

	os_store_relaxed(&shown[OS_SHOWN_MAIN], view->main);
	os_store_relaxed(&shown[OS_SHOWN_SPARE], view->spare);
	os_store_relaxed(&shown[OS_SHOWN_BASES],
			 view->main_base | (uint64_t)view->spare_base << 32);
}

static bool same(const struct slot_view *one, const struct slot_view *other)
{
	return one->main == other->main && one->main_base == other->main_base &&
	       one->spare == other->spare && one->spare_base == other->spare_base;
}

/*
 * A thread that is preempted between its look and its store may overwrite newer words with older
 * ones, so it looks again. It stops after a while if others keep using the slot: each of their
 * pushes shows main.
 */
static void show_slot(struct slot *slot)
{
	struct slot_view view, after;

	/* Closed: nothing is counted here. */
	if (!os_load_relaxed(&slot->home_size))
		return;
	for (int i = 0; i < LOOKS; i++) {
		if (!view_slot(slot, &view))
			continue;
		store(slot, &view);
		/* Pairs with this same fence in another thread: the thread that stored last looked
		 * after both stores. */
		os_fence();
		if (view_slot(slot, &after) && same(&view, &after))
			return;
	}
}

/* Show each slot that a section may have used. */
void view_show(char *handle)
{
	unsigned int row = os_row();

	show_slot(slot_of_row(handle, row));
	for (unsigned int i = 0; i < os.nr_stand_ins; i++)
		show_slot(slot_of_row(handle, os_stand_in(os.node_of_row[row], i)));
}

void view_clear(struct slot *slot)
{
	const struct slot_view nothing = {0};

	if (os.counting && os_load_relaxed(&slot->home_size))
		store(slot, &nothing);
}
