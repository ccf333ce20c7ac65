/* SPDX-License-Identifier: MIT */
/* Limits, marks and callbacks of groups; see group.h. */
#include "group/group.h"
#include "group/stock.h"
#include "os/assert.h"
#include "os/machine.h"

#define MOST ((size_t)1 << 62) /* no process has as many bytes */

const char *group_wrong(const struct kmem_group_args *args)
{
	if (args->hard_limit >= MOST || args->high >= MOST || args->low >= MOST)
		return "a limit or mark of 2^62 bytes or more is a mistake; use 0 for none";
	if (args->high && args->low >= args->high)
		return "the low mark must be below the high mark; use 0 for none";
	if (args->low && !args->high)
		return "a low mark is reported after a high mark; set both";
	return NULL;
}

static uint64_t or_none(size_t bytes)
{
	return bytes ? bytes : GROUP_NO_LIMIT;
}

void group_apply(struct kmem_group *g, const struct kmem_group_args *args)
{
	os_assert(os_peek(&groups.lock.word)); /* GROUP-G4 */
	os_store_relaxed(&g->hard, or_none(args->hard_limit));
	os_store_relaxed(&g->high, or_none(args->high));
	os_store_relaxed(&g->low, args->low);
	g->args.data = args->data;
	g->args.end = args->end;
	os_store_relaxed(&g->args.reclaim, args->reclaim);
	os_store_relaxed(&g->args.event, args->event);
}

/* Other threads charge meanwhile: what counts is that no more is charged from now on. */
static bool limit_fits(struct kmem_group *g, uint64_t hard)
{
	return os_load_relaxed(&g->usage) <= hard;
}

/* With the lock held, before other data is set. Returns what has ended now. */
static struct group_gone replace_data(struct kmem_group *g, const void *data)
{
	struct group_gone old = {g->args.end, g->args.data}, none = {NULL, NULL};

	/* A callback that runs set it, or another one meanwhile. */
	if (g->gone.data == data)
		group_set_gone(g, none);
	if (old.data == data)
		return none;
	if (!g->caller || g->used != old.data)
		return old;
	os_assert(!g->gone.end); /* GROUP-G6 */
	group_set_gone(g, old);
	return none;
}

bool group_set_limits(struct kmem_group *g, const struct kmem_group_args *args)
{
	uint64_t hard = or_none(args->hard_limit);
	struct group_gone gone = {NULL, NULL};
	struct os_program running;
	uint32_t turn = 0;
	bool fits;

	group_end_left(g, (uintptr_t)__builtin_frame_address(0));
	if (!limit_fits(g, hard))
		stock_drain(g);
	if (!limit_fits(g, hard) && group_reclaim(g, os_load_relaxed(&g->usage) - hard, args))
		stock_drain(g);
	os_lock(&groups.lock);
	fits = os_load_relaxed(&g->refs) && limit_fits(g, hard);
	if (fits) {
		gone = replace_data(g, args->data);
		group_apply(g, args);
		turn = g->turns;
		os_assert(g->caller || !g->gone.end); /* GROUP-G6 */
	}
	os_unlock(&groups.lock);
	group_call_end(gone, &running);
	while (turn % 2 && !os_in_program() && os_load_acquire(&g->turns) == turn)
		os_sleep_briefly();
	return fits;
}
