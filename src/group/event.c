/* SPDX-License-Identifier: MIT */
/*
 * Callbacks. A group with events is on a stack, once, and a thread takes the stack as a whole. A
 * group leaves the stack before its events are read, so an event that comes later puts it there
 * again.
 */
#include "group/group.h"

#include "os/machine.h"
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

/* One callback of the group: with the functions and the data as they are when it begins. */
static struct kmem_group_args begin_callback(struct kmem_group *g,
					     const struct kmem_group_args *own)
{
	struct kmem_group_args args;

	os_lock(&groups.lock);
	args = own ? *own : g->args;
	g->used = args.data;
	g->uses_data = 1;
	os_store_relaxed(&g->running, ++groups.nr_calls);
	os_unlock(&groups.lock);
	return args;
}

void group_tell_end(struct group_gone gone)
{
	struct os_program call;

	if (!gone.end)
		return;
	call = os_enter_program();
	gone.end(gone.data);
	os_leave_program(call);
}

static void tell_end_of(struct kmem_group *g)
{
	struct group_gone gone;

	os_lock(&groups.lock);
	gone = g->gone;
	g->gone.end = NULL;
	g->uses_data = 0;
	os_unlock(&groups.lock);
	group_tell_end(gone);
}

static void end_callback(struct kmem_group *g)
{
	tell_end_of(g);
	os_store_release(&g->running, 0);
}

static void report(struct kmem_group *g, uint32_t events)
{
	for (int event = KMEM_GROUP_HIGH; event <= KMEM_GROUP_HARD; event++) {
		struct kmem_group_args args;
		struct os_program call;

		if (!(events >> event & 1))
			continue;
		args = begin_callback(g, NULL);
		call = os_enter_program();
		if (args.event)
			args.event(g, (enum kmem_group_event)event, os_load_relaxed(&g->usage),
				   args.data);
		os_leave_program(call);
		end_callback(g);
	}
}

static bool has_events(struct kmem_group *g)
{
	return os_load_relaxed(&g->events) & ~GROUP_QUEUED;
}

#define ROUNDS 2

/* One thread at a time calls the program. */
static bool begin_calling(struct kmem_group *g)
{
	if (os_exchange(&g->calling, 1))
		return false;
	os_store_relaxed(&g->caller, os_self());
	return true;
}

static void end_calling(struct kmem_group *g)
{
	os_store_relaxed(&g->caller, 0);
	os_store_release(&g->calling, 0);
	/* Another thread that found `calling` set leaves its event to this one. */
	os_fence();
}

/* The thread whose callback runs reports what comes meanwhile; not for ever, because the callback
 * itself may pass a mark. The rest is for a later call. */
static void report_all_of(struct kmem_group *g)
{
	for (int i = 0; has_events(g); i++) {
		if (i == ROUNDS) {
			queue(g, 0);
			return;
		}
		if (!begin_calling(g))
			return;
		report(g, os_fetch_and(&g->events, GROUP_QUEUED));
		end_calling(g);
	}
}

static void report_taken(struct kmem_group *g)
{
	struct kmem_group *next;

	for (; g; g = next) {
		next = g->next_event;
		if (os_fetch_and(&g->events, ~(GROUP_QUEUED | GROUP_ENDS)) & GROUP_ENDS) {
			tell_end_of(g);
			os_store_release(&g->ending, 0);
		}
		if (!group_get_to_call(g))
			continue;
		report_all_of(g);
		group_put_after_call(g);
	}
}

/* The second time for groups that end here. */
void group_report_events(void)
{
	for (int i = 0; i < ROUNDS; i++)
		report_taken(os_exchange(&groups.events, NULL));
}

void group_queue_end(struct kmem_group *g)
{
	queue(g, GROUP_ENDS);
}

bool group_reclaim(struct kmem_group *g, uint64_t bytes, const struct kmem_group_args *own)
{
	struct kmem_group_args args;
	struct os_program call;
	bool freed = false;

	if (!(own ? own->reclaim : os_load_relaxed(&g->args.reclaim)) || !group_get_to_call(g))
		return false;
	if (begin_calling(g)) {
		args = begin_callback(g, own);
		os_fetch_add_relaxed(&g->reclaims, 1);
		call = os_enter_program();
		freed = args.reclaim && args.reclaim(g, bytes, args.data);
		os_leave_program(call);
		end_callback(g);
		end_calling(g);
		report_all_of(g);
	}
	group_put_after_call(g);
	return freed;
}
