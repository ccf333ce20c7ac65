/* SPDX-License-Identifier: MIT */
/* All groups: their sum, walks over them, and fork; see group.h. */
#include "group/group.h"
#include "group/stock.h"
#include "os/machine.h"

/* Call look() for the root and each group, even those that are over. */
static void look_at_all(void (*look)(void *data, struct kmem_group *g), void *data)
{
	look(data, &groups.root);
	for (struct kmem_group *g = groups.first; g; g = g->next)
		look(data, g);
	for (struct kmem_group *g = groups.over; g; g = g->next)
		look(data, g);
}

static void add_usage(void *sum, struct kmem_group *g)
{
	if (g->parent == &groups.root)
		*(uint64_t *)sum += os_load_relaxed(&g->usage);
}

static void add_up(void)
{
	uint64_t usage = 0;

	look_at_all(add_usage, &usage);
	os_store_relaxed(&groups.root.usage, usage);
	if (usage > groups.root.peak)
		os_store_relaxed(&groups.root.peak, usage);
}

void group_for_each(void (*look)(void *data, struct kmem_group *g), void *data)
{
	os_lock(&groups.lock);
	add_up();
	look_at_all(look, data);
	os_unlock(&groups.lock);
}

/* --- fork ------------------------------------------------------------------------------------- */

/* A callback that forked goes on here; those of other threads have vanished. */
static void forget_group(void *data, struct kmem_group *g)
{
	(void)data;
	g->usage = g->events = 0;
	g->refs -= g->threads;
	g->threads = 0;
	if (g->caller && g->caller != os_self())
		g->caller = GROUP_VANISHED;
	if (g->caller || g->gone.end)
		group_queue(g, 0);
}

void group_after_fork(void)
{
	uint32_t mine = os_current_group()->own;

	stock_forget();
	groups.events = NULL;
	look_at_all(forget_group, NULL);
	if (mine) {
		group_of_number(mine)->threads = 1;
		group_of_number(mine)->refs++;
	}
}

/* Groups whose last references were those of vanished threads. */
void group_end_forgotten(void)
{
	struct kmem_group *g = groups.first;

	while (g) {
		struct kmem_group *parent = g->parent;

		if (g->refs) {
			g = g->next;
			continue;
		}
		os_lock(&groups.lock);
		group_end(g);
		os_unlock(&groups.lock);
		group_put(parent);
		g = groups.first;
	}
}
