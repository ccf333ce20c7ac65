/* SPDX-License-Identifier: MIT */
/*
 * Callbacks. A group with events is on a stack, once, and a thread takes the stack as a whole. A
 * group leaves the stack before its events are read, so an event that comes later puts it there
 * again.
 */
#include "group/group.h"

#include "os/program.h"

/* GROUP_QUEUED: the group is on the stack. */
static void queue(struct kmem_group *g, uint32_t events)
{
	if (os_fetch_or(&g->events, GROUP_QUEUED | events) & GROUP_QUEUED)
		return;
	g->next_event = os_load_relaxed(&groups.events);
	while (!os_cmpxchg(&groups.events, &g->next_event, g))
		;
}

/* A callback that allocates in its own group may fail, and must not be called for that. */
void group_add_event(struct kmem_group *g, enum kmem_group_event event)
{
	if (os_load_relaxed(&g->args.event) &&
	    !(event == KMEM_GROUP_HARD && os_load_relaxed(&g->calling)))
		queue(g, 1u << event);
}

/* The callbacks as they are now. */
static struct kmem_group_args callbacks_of(struct kmem_group *g)
{
	struct kmem_group_args args;

	os_lock(&groups.lock);
	args = g->args;
	os_unlock(&groups.lock);
	return args;
}

static void report(struct kmem_group *g, uint32_t events)
{
	for (int event = KMEM_GROUP_HIGH; event <= KMEM_GROUP_HARD; event++) {
		struct kmem_group_args args = callbacks_of(g);
		struct os_program call;

		if (!(events >> event & 1) || !args.event)
			continue;
		call = os_enter_program();
		args.event(g, (enum kmem_group_event)event, os_load_relaxed(&g->usage), args.data);
		os_leave_program(call);
	}
}

static bool has_events(struct kmem_group *g)
{
	return os_load_relaxed(&g->events) & ~GROUP_QUEUED;
}

#define ROUNDS 2

/* The thread whose callback runs reports what comes meanwhile; not for ever, because the callback
 * itself may pass a mark. The rest is for a later call. */
static void report_all_of(struct kmem_group *g)
{
	for (int i = 0; has_events(g); i++) {
		if (i == ROUNDS) {
			queue(g, 0);
			return;
		}
		if (os_exchange(&g->calling, 1))
			return;
		report(g, os_fetch_and(&g->events, GROUP_QUEUED));
		os_store_release(&g->calling, 0);
		/* Another thread that found `calling` set leaves its event to this one. */
		os_fence();
	}
}

void group_report_events(void)
{
	struct kmem_group *g = os_exchange(&groups.events, NULL), *next;

	for (; g; g = next) {
		next = g->next_event;
		os_fetch_and(&g->events, ~GROUP_QUEUED);
		if (!group_get(g))
			continue;
		report_all_of(g);
		group_put(g);
	}
}

static bool call_reclaim(struct kmem_group *g, uint64_t bytes, const struct kmem_group_args *args)
{
	struct os_program call = os_enter_program();
	bool freed = args->reclaim && args->reclaim(g, bytes, args->data);

	os_leave_program(call);
	return freed;
}

bool group_reclaim(struct kmem_group *g, uint64_t bytes, const struct kmem_group_args *own)
{
	struct kmem_group_args args;
	bool freed = false;

	if (!(own ? own->reclaim : os_load_relaxed(&g->args.reclaim)) || !group_get(g))
		return false;
	if (!os_exchange(&g->calling, 1)) {
		args = own ? *own : callbacks_of(g);
		os_fetch_add_relaxed(&g->reclaims, 1);
		freed = call_reclaim(g, bytes, &args);
		os_store_release(&g->calling, 0);
		os_fence();
		report_all_of(g);
	}
	group_put(g);
	return freed;
}
