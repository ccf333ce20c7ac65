/* SPDX-License-Identifier: MIT */
/* Steps with groups, and what they must have. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fuzz/api/model.h"
#include "kit/options.h"

enum {
	MAX_DATA = 600 /* one for each call that sets some */
};

struct group groups_known[MAX_GROUPS];

static struct data {
	bool ended, high; /* high: the group has reported that */
} data[MAX_DATA];
static unsigned int nr_data;

unsigned int some_group(void)
{
	unsigned int i = below(MAX_GROUPS);

	while (i && !(groups_known[i].exists && groups_known[i].mine))
		i--;
	return i;
}

struct kmem_group *pointer_of(unsigned int group)
{
	return group ? groups_known[group].g : NULL;
}

unsigned int payer(const struct known *k, gfp_t flags)
{
	if (k && k->group)
		return k->group;
	if (flags & __GFP_ACCOUNT || (k && k->flags & SLAB_ACCOUNT))
		return program.current[program.thread];
	return ROOT;
}

/* --- bytes ------------------------------------------------------------------------------------ */

static bool is_below(unsigned int group, unsigned int above)
{
	while (group != above && group)
		group = groups_known[group].parent;
	return group == above;
}

/* Of it and the groups below it. */
static uint64_t bytes_of(unsigned int group, bool loose)
{
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < MAX_GROUPS; i++)
		if ((!i || groups_known[i].exists) && is_below(i, group))
			bytes += loose ? groups_known[i].loose_bytes : groups_known[i].bytes;
	return bytes;
}

bool group_is_full(unsigned int group, uint64_t bytes)
{
	for (; group; group = groups_known[group].parent)
		if (groups_known[group].hard &&
		    bytes_of(group, false) + bytes > groups_known[group].hard)
			return true;
	return false;
}

bool group_has_limit(unsigned int group)
{
	for (; group; group = groups_known[group].parent)
		if (groups_known[group].hard)
			return true;
	return false;
}

static void check_group(unsigned int i)
{
	const struct group *g = &groups_known[i];
	struct kmem_group_stats stats;
	uint64_t objects_in, bytes_in, all = bytes_of(i, false), loose = bytes_of(i, true);

	WANT(kmem_group_stats(pointer_of(i), &stats) == 0);
	WANT(kmem_group_count_objects(pointer_of(i), &objects_in, &bytes_in) == 0);
	if (stats.bytes > all || stats.bytes < all - loose)
		fail("group %u has %llu bytes instead of %llu (%llu may be free)", i,
		     (unsigned long long)stats.bytes, (unsigned long long)all,
		     (unsigned long long)loose);
	if (objects_in > g->objects || objects_in < g->objects - g->loose_objects ||
	    bytes_in > g->bytes || bytes_in < g->bytes - g->loose_bytes)
		fail("group %u owns %llu objects, %llu bytes instead of %llu, %llu", i,
		     (unsigned long long)objects_in, (unsigned long long)bytes_in,
		     (unsigned long long)g->objects, (unsigned long long)g->bytes);
	if (!i)
		return;
	if (stats.references != g->mine + g->threads + g->caches + g->children)
		fail("group %u has %llu references instead of %u + %u + %u + %u", i,
		     (unsigned long long)stats.references, g->mine, g->threads, g->caches,
		     g->children);
	WANT(stats.hard_limit == g->hard && stats.high == g->high && stats.low == g->low);
	WANT(!g->hard || g->exceeded || stats.bytes <= g->hard);
	WANT(stats.peak >= stats.bytes && !data[g->data].ended);
}

void check_groups(void)
{
	for (unsigned int i = 0; i < MAX_GROUPS; i++)
		if (!i || groups_known[i].exists)
			check_group(i);
	WANT(kmem_group_verify() == 0);
}

/* --- callbacks -------------------------------------------------------------------------------- */

/* MAX_GROUPS: kmem_group_create() has not returned. */
static unsigned int group_with(struct kmem_group *g, const struct data *its)
{
	unsigned int i;

	for (i = 1; i < MAX_GROUPS; i++)
		if (groups_known[i].exists && groups_known[i].g == g)
			break;
	WANT(!its->ended);
	return i;
}

/* Frees up to three objects of the group. */
static bool reclaim(struct kmem_group *g, size_t bytes, void *its)
{
	unsigned int group = group_with(g, its), freed = 0;

	WANT(bytes);
	for (unsigned int i = nr_objects; i > 0 && freed < 3 && group < MAX_GROUPS; i--)
		if (objects[i - 1].state == LIVE && objects[i - 1].group == group &&
		    !objects[i - 1].pinned && objects[i - 1].pool == NO_POOL) {
			free_any(i - 1);
			freed++;
		}
	return freed != 0;
}

static void event(struct kmem_group *g, enum kmem_group_event what, uint64_t bytes, void *its)
{
	struct data *of = its;

	(void)bytes;
	group_with(g, of);
	WANT(what != KMEM_GROUP_LOW || of->high);
	of->high = what == KMEM_GROUP_HIGH || (of->high && what != KMEM_GROUP_LOW);
	/* A callback may use the library. */
	kfree(kmalloc(40, GFP_NOWAIT | __GFP_NOWARN));
}

static void end(void *its)
{
	struct data *of = its;

	WANT(!of->ended);
	of->ended = true;
}

/* --- references ------------------------------------------------------------------------------- */

/* Its objects move up. */
void group_drop(unsigned int i, unsigned int *references)
{
	struct group *g = &groups_known[i], *above = &groups_known[g->parent];

	WANT(*references);
	--*references;
	if (g->mine + g->threads + g->caches + g->children)
		return;
	WANT(data[g->data].ended);
	for (unsigned int n = 0; n < nr_objects; n++)
		if (objects[n].group == i)
			objects[n].group = g->parent;
	above->bytes += g->bytes;
	above->objects += g->objects;
	above->loose_bytes += g->loose_bytes;
	above->loose_objects += g->loose_objects;
	above->exceeded |= g->exceeded;
	*g = (struct group){.exists = false};
	if (above != &groups_known[ROOT])
		group_drop((unsigned int)(above - groups_known), &above->children);
}

static void put(void)
{
	unsigned int i = some_group();

	kmem_group_put(pointer_of(i));
	if (i)
		group_drop(i, &groups_known[i].mine);
}

static void get(void)
{
	unsigned int i = some_group();

	WANT(kmem_group_get(pointer_of(i)) == pointer_of(i));
	groups_known[i].mine += i != 0;
}

/* --- steps ------------------------------------------------------------------------------------ */

static struct kmem_group_args some_limits(unsigned int d)
{
	unsigned int what = byte();
	struct kmem_group_args args = {.data = &data[d], .end = end};

	if (what & 1)
		args.hard_limit = (size_t)(1 + below(2000)) << (what & 6);
	if (what & 8) {
		args.high = 1 + below(30000);
		args.low = args.high / 2;
	}
	if (what & 16)
		args.reclaim = reclaim;
	if (what & 32)
		args.event = event;
	return args;
}

static void make_group(void)
{
	unsigned int parent = some_group(), i = 1;
	struct kmem_group_args args;
	struct kmem_group *g;

	while (i < MAX_GROUPS && groups_known[i].exists)
		i++;
	if (i == MAX_GROUPS || nr_data == MAX_DATA)
		return;
	args = some_limits(nr_data);
	g = kmem_group_create("group", pointer_of(parent), &args);
	if (!g) {
		WANT(memory_is_limited() && !data[nr_data].ended);
		may_report();
		return;
	}
	groups_known[i] = (struct group){.g = g,
					 .exists = true,
					 .parent = parent,
					 .mine = 1,
					 .hard = args.hard_limit,
					 .high = args.high,
					 .low = args.low,
					 .data = nr_data++};
	groups_known[parent].children += parent != 0;
}

static void set_limits(void)
{
	unsigned int i = some_group();
	struct group *g = &groups_known[i];
	struct kmem_group_args args;
	int error;

	if (!i || nr_data == MAX_DATA)
		return;
	args = some_limits(nr_data);
	error = kmem_group_set_limits(g->g, &args);
	if (error) {
		WANT(error == -EBUSY && args.hard_limit && bytes_of(i, false) > args.hard_limit);
		WANT(!data[nr_data].ended && !data[g->data].ended);
		return;
	}
	WANT(data[g->data].ended && !data[nr_data].ended);
	WANT(!args.hard_limit || bytes_of(i, false) - bytes_of(i, true) <= args.hard_limit);
	g->hard = args.hard_limit;
	g->high = args.high;
	g->low = args.low;
	g->exceeded = false;
	g->data = nr_data++;
}

static void set_current(void)
{
	unsigned int i = some_group(), *mine = &program.current[program.thread], before = *mine;
	struct kmem_group *was;

	if (byte() & 1) {
		kmem_group_get(pointer_of(i));
		kmem_group_restore_current(pointer_of(i));
	} else {
		was = kmem_group_set_current(pointer_of(i));
		WANT(was == pointer_of(before));
		kmem_group_put(was);
	}
	groups_known[i].threads += i != 0;
	*mine = i;
	if (before)
		group_drop(before, &groups_known[before].threads);
}

static void read_group(void)
{
	check_group(some_group());
}

void finish_groups(void)
{
	for (unsigned int i = 1; i < MAX_GROUPS; i++)
		while (groups_known[i].exists && groups_known[i].mine) {
			kmem_group_put(groups_known[i].g);
			group_drop(i, &groups_known[i].mine);
		}
}

const struct step group_steps[] = {
	{"make_group", make_group, 3},
	{"put", put, 1},
	{"get", get, 1},
	{"set_limits", set_limits, 3},
	{"set_current", set_current, 5},
	{"read_group", read_group, 1},
	{NULL, NULL, 0},
};
