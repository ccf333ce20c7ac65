/* SPDX-License-Identifier: MIT */
/* Counters of bytes, from a group up to below the root; see group.h. */
#include "group/group.h"

#include "os/assert.h"
#include "os/probe.h"
#include "os/should_fail.h"

/* Neither is near 2^64: both are sizes of memory. */
static bool exceeds(uint64_t usage, uint64_t bytes, uint64_t limit)
{
	return usage + bytes > limit;
}

/* Each sum is seen by one thread, so each mark is passed by one. */
static void see_more(struct kmem_group *g, uint64_t before, uint64_t now)
{
	uint64_t high = os_load_relaxed(&g->high);

	os_raise(&g->peak, now);
	if (now >= high && before < high &&
	    (!os_exchange(&g->above, 1) || !os_load_relaxed(&g->low))) {
		os_fetch_add_relaxed(&g->high_events, 1);
		group_add_event(g, KMEM_GROUP_HIGH);
	}
}

static void see_less(struct kmem_group *g, uint64_t low, uint64_t before, uint64_t now)
{
	if (now <= low && before > low && low && os_exchange(&g->above, 0)) {
		os_fetch_add_relaxed(&g->low_events, 1);
		group_add_event(g, KMEM_GROUP_LOW);
	}
}

/* A limit must hold at every moment, and a charge that fails must not make another one fail: so
 * nothing is added first and subtracted afterwards. */
static bool add_charge(struct kmem_group *g, uint64_t bytes, enum group_force force)
{
	uint64_t hard = os_load_relaxed(&g->hard), usage;

	if (hard == GROUP_NO_LIMIT) {
		usage = os_fetch_add(&g->usage, bytes);
	} else {
		usage = os_load_relaxed(&g->usage);
		do {
			if (force == GROUP_TRY && exceeds(usage, bytes, hard))
				return false;
		} while (!os_cmpxchg(&g->usage, &usage, usage + bytes));
		if (exceeds(usage, bytes, hard))
			os_fetch_add_relaxed(&g->forced, bytes);
	}
	see_more(g, usage, usage + bytes);
	return true;
}

static void subtract_charge(struct kmem_group *g, uint64_t bytes)
{
	/* Read before: afterwards the place may belong to another group (GROUP-G3). */
	uint64_t low = os_load_relaxed(&g->low), usage = os_fetch_sub(&g->usage, bytes);

	os_assert(usage >= bytes); /* GROUP-G1 */
	see_less(g, low, usage, usage - bytes);
}

struct kmem_group *group_find_full(struct kmem_group *g, uint64_t bytes)
{
	for (; g->parent; g = g->parent)
		if (exceeds(os_load_relaxed(&g->usage), bytes, os_load_relaxed(&g->hard)))
			return g;
	return NULL;
}

/* If a limit above stops the charge, no group below it is charged even briefly: unless others
 * charge at the same time. */
struct kmem_group *group_charge(struct kmem_group *g, uint64_t bytes, enum group_force force)
{
	struct kmem_group *full = force == GROUP_TRY ? group_find_full(g, bytes) : NULL;

	if (force == GROUP_TRY && os_should_fail("group_charge"))
		return g;
	if (full)
		return full;
	for (struct kmem_group *up = g; up->parent; up = up->parent) {
		if (add_charge(up, bytes, force))
			continue;
		for (struct kmem_group *done = g; done != up;) {
			struct kmem_group *next = done->parent;

			subtract_charge(done, bytes);
			done = next;
		}
		return up;
	}
	return NULL;
}

/* GROUP-G3: after the subtraction, the place may belong to another group. */
void group_uncharge(struct kmem_group *g, uint64_t bytes)
{
	while (g->parent && bytes) {
		struct kmem_group *parent = g->parent;

		subtract_charge(g, bytes);
		g = parent;
	}
}

void group_fails(struct kmem_group *g)
{
	os_fetch_add_relaxed(&g->failed, 1);
	probe(group_limit, g->name, os_load_relaxed(&g->usage), os_load_relaxed(&g->hard));
	group_add_event(g, KMEM_GROUP_HARD);
}
