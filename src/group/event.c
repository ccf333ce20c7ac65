/* SPDX-License-Identifier: MIT */
/*
 * Callbacks. A group with events is on a stack, once. Threads take groups from it one by one, with
 * the lock held: a callback that is left without a return, or that forks, does not keep other
 * groups from being reported. A group leaves the stack before its events are read, so an event that
 * comes later puts it there again.
 *
 *   no caller --begin()--> callback runs --end_turn()--> `gone` ends --> no caller
 *
 * A thread that finds that another one is the caller leaves its events to it.
 */
#include "group/group.h"

#include "os/assert.h"
#include "os/machine.h"
#include "os/report/report.h"

#define MOST_CALLS 6 /* of one group's callback in a row: it may pass a mark itself */

void group_queue(struct kmem_group *g, uint32_t events)
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
	if (!os_load_relaxed(&g->args.event) ||
	    (event == KMEM_GROUP_HARD && os_load_relaxed(&g->caller)))
		return;
	/* Both would be reported in the order of their numbers, and the fall is over. */
	if (event == KMEM_GROUP_HIGH)
		os_fetch_and(&g->events, ~(1u << KMEM_GROUP_LOW));
	group_queue(g, 1u << event);
}

void group_call_end(struct group_gone gone, struct os_program *running)
{
	struct os_program call;

	if (!gone.end)
		return;
	call = *running = os_enter_watched();
	gone.end(gone.data);
	os_leave_program(call);
}

/* With the lock held, as the caller. */
static uint32_t begin_turn(struct kmem_group *g, void *data)
{
	os_assert(!g->caller && g->turns % 2 == 0); /* GROUP-G5 */
	g->used = data;
	os_store_relaxed(&g->caller, os_self());
	os_store_relaxed(&g->turns, g->turns + 1);
	return g->turns;
}

/* With the lock held, as the caller; without it meanwhile. */
static void call_ends(struct kmem_group *g)
{
	while (g->gone.end) {
		struct group_gone gone = g->gone;

		os_store_release(&g->gone.end, NULL);
		os_unlock(&groups.lock);
		group_call_end(gone, &g->call);
		os_lock(&groups.lock);
	}
}

/* Unless it seemed left, and another thread or call ended it. */
static void end_turn(struct kmem_group *g, uint32_t turn)
{
	struct kmem_group *parent = g->parent;
	bool last;

	os_lock(&groups.lock);
	if (g->turns != turn || (g->caller != os_self() && g->caller != GROUP_VANISHED)) {
		os_unlock(&groups.lock);
		return;
	}
	os_store_relaxed(&g->caller, os_self());
	call_ends(g);
	/* The callback's reference; the end of a group that is over needs none. */
	last = !g->over && os_fetch_sub(&g->refs, 1) == 1;
	if (last) {
		group_end(g);
		call_ends(g);
	}
	os_assert(g->turns % 2 == 1 && !g->gone.end); /* GROUP-G5, GROUP-G6 */
	os_store_release(&g->caller, 0);
	os_store_release(&g->turns, g->turns + 1);
	os_unlock(&groups.lock);
	if (last)
		group_put(parent);
}

void group_end_left(struct kmem_group *g, uintptr_t here)
{
	uintptr_t caller = os_load_relaxed(&g->caller);

	if (caller == os_self() && os_program_was_left(&g->call, here)) {
		os_report_once_later(
			&groups.reported_left,
			"kmem_group %s: a callback was left by longjmp() or an "
			"exception, or switched stacks; it will be called again. It must "
			"return",
			g->name);
		os_leave_left_program(g->call);
	} else if (caller != GROUP_VANISHED) {
		return;
	}
	end_turn(g, g->turns);
}

/* The callbacks and the data as they are now. Returns the turn; 0: a callback runs, or the group is
 * over. */
static uint32_t begin(struct kmem_group *g, struct kmem_group_args *args,
		      const struct kmem_group_args *own)
{
	uint32_t turn = 0;

	os_lock(&groups.lock);
	if (!g->caller && group_get(g)) {
		*args = own ? *own : g->args;
		turn = begin_turn(g, args->data);
	}
	os_unlock(&groups.lock);
	return turn;
}

static uint32_t events_of(struct kmem_group *g)
{
	return os_load_relaxed(&g->events) & ~GROUP_QUEUED;
}

/* The first of its events, if another caller has not taken it. */
static OS_NOINLINE void call_event(struct kmem_group *g, const struct kmem_group_args *args)
{
	uint32_t events = events_of(g), first = events & -events;
	struct os_program call;

	os_fetch_and(&g->events, ~first);
	if (!first || !args->event)
		return;
	os_assert(os_holds_nothing("calls a group's callback")); /* GROUP-G5 */
	call = g->call = os_enter_watched();
	args->event(g, (enum kmem_group_event)__builtin_ctz(first), os_load_relaxed(&g->usage),
		    args->data);
	os_leave_program(call);
}

/* Returns true if there are more events, for the next call. */
static bool report_all_of(struct kmem_group *g)
{
	struct kmem_group_args args;

	for (int i = 0; i < MOST_CALLS && events_of(g); i++) {
		uint32_t turn = begin(g, &args, NULL);

		if (!turn)
			return false;
		call_event(g, &args);
		end_turn(g, turn);
	}
	return events_of(g);
}

/* Of a group that is over. */
static void report_end_of(struct kmem_group *g)
{
	uint32_t turn = 0;

	os_lock(&groups.lock);
	if (g->gone.end && !g->caller)
		turn = begin_turn(g, NULL);
	os_unlock(&groups.lock);
	if (turn)
		end_turn(g, turn);
}

static unsigned int nr_queued(void)
{
	unsigned int n = 0;

	os_lock(&groups.lock);
	for (struct kmem_group *g = os_load_acquire(&groups.events); g; g = g->next_event)
		n++;
	os_unlock(&groups.lock);
	return n;
}

/* The group that came last; NULL: none. While this thread has the lock, the stack only grows. */
static struct kmem_group *take_queued(void)
{
	struct kmem_group *g;

	os_lock(&groups.lock);
	g = os_load_acquire(&groups.events);
	while (g && !os_cmpxchg(&groups.events, &g, g->next_event))
		;
	os_unlock(&groups.lock);
	if (g)
		os_fetch_and(&g->events, ~GROUP_QUEUED);
	return g;
}

/* Those that are queued now. One that has more events returns below the next one. */
static void report_queued(uintptr_t here)
{
	struct kmem_group *g, *again = NULL;

	for (unsigned int n = nr_queued(); n && (g = take_queued()); n--) {
		if (again)
			group_queue(again, 0);
		group_end_left(g, here);
		report_end_of(g);
		again = report_all_of(g) ? g : NULL;
	}
	if (again)
		group_queue(again, 0);
}

/* The second time for groups that end here. */
void group_report_events(void)
{
	for (int i = 0; i < 2; i++)
		report_queued((uintptr_t)__builtin_frame_address(0));
}

bool group_reclaim(struct kmem_group *g, uint64_t bytes, const struct kmem_group_args *own)
{
	struct kmem_group_args args;
	struct os_program call;
	bool freed = false;
	uint32_t turn;

	if (!(own ? own->reclaim : os_load_relaxed(&g->args.reclaim)))
		return false;
	group_end_left(g, (uintptr_t)__builtin_frame_address(0));
	turn = begin(g, &args, own);
	if (!turn)
		return false;
	os_fetch_add_relaxed(&g->reclaims, 1);
	os_assert(os_holds_nothing("calls a group's callback")); /* GROUP-G5 */
	call = g->call = os_enter_watched();
	freed = args.reclaim && args.reclaim(g, bytes, args.data);
	os_leave_program(call);
	end_turn(g, turn);
	if (report_all_of(g))
		group_queue(g, 0);
	return freed;
}
