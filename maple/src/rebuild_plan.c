/* SPDX-License-Identifier: MIT */
/*
 * Decides how far up a store changes nodes, which neighbours it joins, and how many nodes it needs:
 * the first half of rebuild.c, done before anything is allocated.
 *
 * Called with the tree's lock held.
 */
#include <stdlib.h>

#include "rebuild.h"

/*
 * A leaf that is too full shares its slots with a neighbour: up to this many slots stay in two
 * leaves, more go into three. Two leaves could hold 32, but would be full again immediately. A leaf
 * without such a neighbour is split into halves.
 */
#define LEAF_SHARED 29u

static unsigned int nodes_for(unsigned int n, unsigned int cap)
{
	return (n + cap - 1) / cap;
}

/* Include the previous (next) node of a level: above it, the way then goes to its slot. */
static void take_left(struct store *st, unsigned int l, const struct path *way)
{
	st->level[l].left = way->at[l].e;
	st->level[l].left_min = way->at[l].min;
	for (unsigned int up = l + 1; up <= way->height; up++)
		st->lo.at[up] = way->at[up];
}

static void take_right(struct store *st, unsigned int l, const struct path *way)
{
	st->level[l].right = way->at[l].e;
	st->level[l].right_max = way->at[l].max;
	for (unsigned int up = l + 1; up <= way->height; up++)
		st->hi.at[up] = way->at[up];
}

/* How many items a neighbour gives. After a refused erase that may be few of many slots. */
static unsigned int items_of(const struct store *st, enode_t e)
{
	const struct maple_node *node = node_of(e);
	unsigned int end = end_of(node), nulls;

	if (likely(!st->mas->tree->__ma_unjoined) || level_of(e))
		return end + 1;
	nulls = null_slots(node);
	return end + 1 - (unsigned int)__builtin_popcount(nulls & nulls >> 1 & ((1u << end) - 1));
}

/*
 * n items are too many or too few for a node of this level: join a neighbour, preferably a sibling,
 * if both together have at most `room` items. With `must`, join any neighbour, because n items must
 * not stay alone. Returns false if no neighbour was joined.
 */
static bool take_neighbour(struct store *st, unsigned int l, unsigned int n, unsigned int room,
			   bool must)
{
	unsigned int left_n = UINT_MAX, right_n = UINT_MAX;
	bool left_sibling = l < st->lo.height && st->lo.at[l + 1].offset > 0, right_sibling, left;
	struct path before, after;

	right_sibling =
		l < st->hi.height && st->hi.at[l + 1].offset < end_of(node_of(st->hi.at[l + 1].e));
	path_copy(&before, &st->lo);
	path_copy(&after, &st->hi);
	if ((left_sibling || must || !right_sibling) && path_prev(&before, l))
		left_n = items_of(st, before.at[l].e);
	if ((right_sibling || must || !left_sibling) && path_next(&after, l))
		right_n = items_of(st, after.at[l].e);
	if (left_n == UINT_MAX && right_n == UINT_MAX)
		return false;
	left = left_n == right_n ? left_sibling : left_n < right_n;
	if (!must && (left ? left_n : right_n) + n > room)
		return false;
	if (left)
		take_left(st, l, &before);
	else
		take_right(st, l, &after);
	return true;
}

static unsigned int leaves_for(unsigned int n, bool shared)
{
	return shared && n > LEAF_SHARED && n <= 3 * LEAF_SLOTS ? 3 : nodes_for(n, LEAF_SLOTS);
}

/* No entry is left. A store that joins no leaves makes an empty one of it. */
static bool is_nothing(const struct store *st)
{
	return !st->alone && st->items.n == 1 && !st->items.slot[0];
}

/* Level 0: the items, with a neighbour if they are few, or too many for one leaf. */
static void plan_leaves(struct store *st)
{
	bool one_leaf = st->lo.at[0].e == st->hi.at[0].e, nothing, few, many, shared = false;
	bool unjoined = st->mas->tree->__ma_unjoined && !st->alone;
	struct items *items = &st->items;

	st->level[0].left = st->level[0].right = 0;
	st->empty_before = st->empty_after = 0;
	if (unlikely(unjoined))
		take_empty(st);
	items->n = st->end + 1; /* known if the leaf is split */
	many = st->type == wr_split_store && abs(st->skew) < 2;
	if (!many)
		gather_leaves(st);
	nothing = is_nothing(st);
	/* After a refused erase a leaf that had few joins one even if the store adds two. */
	few = !st->alone && items->n < LEAF_FEW + 2u * unjoined &&
	      (!one_leaf || unjoined || items->n < end_of(node_of(st->lo.at[0].e)) + 1);
	if ((nothing || few) && take_neighbour(st, 0, items->n, JOIN_ROOM(LEAF_SLOTS), nothing)) {
		gather_leaves(st);
		st->skew = 0;
	} else if (many) {
		shared = take_neighbour(st, 0, items->n, 3 * LEAF_SLOTS, false);
		gather_leaves(st);
		st->skew = shared ? 0 : st->skew;
	}
	st->level[0].n = items->n;
	st->level[0].nodes = leaves_for(items->n, shared);
	st->nodes = st->level[0].nodes;
	if (is_nothing(st))
		st->nodes = st->level[0].nodes = 0; /* nothing is left in the tree */
}

/* The root has two children, and this level's node is one of them. */
static bool is_of_last_two(const struct store *st, unsigned int l)
{
	return !KERNEL_RULES && l + 1 == st->lo.height && end_of(node_of(st->lo.at[l + 1].e)) == 1;
}

/* Plan a level above the leaves. False: there is nothing to make, because its only child can be the
 * root. */
static bool plan_level(struct store *st, unsigned int l)
{
	const struct step *lo = &st->lo.at[l], *hi = &st->hi.at[l];
	unsigned int cap = slots_at(st, l), few = cap == ARANGE_SLOTS ? ARANGE_FEW : LEAF_FEW;
	unsigned int room = JOIN_ROOM(cap), n;
	struct level *level = &st->level[l];
	bool fewer;

	n = lo->offset + st->level[l - 1].nodes + end_of(node_of(hi->e)) - hi->offset;
	fewer = lo->e != hi->e || n < end_of(node_of(lo->e)) + 1;
	if (is_of_last_two(st, l))
		few = room = cap; /* if they fit into one node, the tree loses a level */
	level->left = level->right = 0;
	if (n < few && fewer && take_neighbour(st, l, n, room, n == 1)) {
		if (level->left)
			n += end_of(node_of(level->left)) + 1;
		if (level->right)
			n += end_of(node_of(level->right)) + 1;
	}
	level->n = n;
	level->nodes = n == 1 ? 0 : nodes_for(n, cap);
	st->nodes += level->nodes;
	return n > 1;
}

static bool is_place(const struct store *st, unsigned int l)
{
	const struct step *lo = &st->lo.at[l], *hi = &st->hi.at[l];

	return lo->e == hi->e && lo->offset == hi->offset && st->level[l - 1].nodes == 1;
}

void rebuild_plan(struct store *st)
{
	unsigned int height = st->lo.height, l;

	plan_leaves(st);
	for (l = 1; l <= height && st->nodes; l++)
		if (is_place(st, l) || !plan_level(st, l))
			break;
	/* The list of level l - 1 goes into a slot of level l, or is the new root. */
	st->top = l;
	st->in_place = st->nodes && l <= height && is_place(st, l);
	if (!st->in_place && st->nodes && st->level[l - 1].nodes > 1)
		st->nodes++;
}
