/* SPDX-License-Identifier: MIT */
/* The current group of each thread, which has a reference to it; see group.h. */
#include "group/stock.h"

static void drop_current(uint32_t number)
{
	os_fetch_sub(&group_of_number(number)->threads, 1);
	group_put(group_of_number(number));
	group_leave();
}

/* The thread's end drops its reference. */
static void see_end_of_thread(void)
{
	bool begun;

	if (os_has_group())
		return;
	/* The system had no room for it when the first group was created. */
	os_lock(&groups.lock);
	begun = os_at_thread_end(drop_current);
	os_unlock(&groups.lock);
	if (begun)
		os_has_group();
}

/* The caller's reference becomes the thread's. Returns the group before, whose reference is the
 * caller's now. */
static struct kmem_group *exchange_current(struct kmem_group *g)
{
	struct os_current *current = os_current_group();
	uint32_t before = current->own;

	if (g)
		os_fetch_add(&g->threads, 1);
	current->group = current->own = g ? g->number : GROUP_NONE;
	if (g && !before)
		see_end_of_thread();
	if (!before)
		return NULL;
	os_fetch_sub(&group_of_number(before)->threads, 1);
	return group_of_number(before);
}

/* After a report nothing changes: so the group before is the current one. */
SHEAF_PUBLIC struct kmem_group *kmem_group_set_current(struct kmem_group *g)
{
	if (g == &groups.root)
		g = NULL;
	if (!g || (group_check(g, "kmem_group_set_current") && group_get(g)))
		return exchange_current(g);
	g = group_of_number(os_current_group()->own);
	return g != &groups.root && group_get(g) ? g : NULL;
}

SHEAF_PUBLIC void kmem_group_restore_current(struct kmem_group *g)
{
	if (g == &groups.root)
		g = NULL;
	if (g && !group_check(g, "kmem_group_restore_current"))
		return;
	g = exchange_current(g);
	if (g)
		group_put_and_wait(g);
}

bool groups_begin(void)
{
	bool first;

	os_lock(&groups.lock);
	first = !groups.begun && stock_begin();
	if (first)
		os_at_thread_end(drop_current);
	os_unlock(&groups.lock);
	return first;
}
