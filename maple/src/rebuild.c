/* SPDX-License-Identifier: MIT */
/*
 * Stores that change more than one node: splits, joins of leaves with few entries, ranges over many
 * leaves, new roots. One procedure serves them all:
 *
 *     level 2            [ . . L . . . . H . . ]        lo, hi: the paths to index and to last
 *                             /         \               (the same, if one leaf has both)
 *     level 1     [ . . . L ]  [ ... ]  [ . H . . ]
 *                       /     covered     \
 *     level 0     [ a b c d ]           [ e f g h ]
 *                     \__ new items _____/
 *
 * At each level, from the leaves up, it makes a list of items: the slots of the lo node before the
 * path; the replacement for everything between the paths (at level 0 the entry, and the rest of the
 * two ranges that it cuts; at higher levels the new nodes of the level below); and the slots of the
 * hi node after the path. The list fills new nodes: together with a neighbour's slots if it is too
 * short for one node, or several nodes if it is too long. At the level where both paths use the
 * same slot and one new node replaces its child, one store into that slot publishes everything. If
 * there is no such level, the list becomes a new root.
 *
 * The plan (rebuild_plan.c) counts items and nodes. Rebuilding does what was planned, and cannot
 * fail. Then all nodes that were replaced are retired. The lists are made in items.c.
 *
 * Called with the tree's lock held.
 */
#include <string.h>

#include "rebuild.h"

/* --- the new nodes --------------------------------------------------------------------------- */

/* How many of the items from `start` go into the next of `parts` nodes. */
static unsigned int share(const struct items *items, unsigned int start, unsigned int parts,
			  unsigned int cap, int skew, bool leaf)
{
	unsigned int left = items->n - start, n = (left + parts - 1) / parts;
	unsigned int least = left > (parts - 1) * cap ? left - (parts - 1) * cap : 1;

	if (parts == 1)
		return left;
	if (parts == 2 && skew)
		n = skew > 1	? left - 2
		    : skew < -1 ? 2
		    : skew > 0	? left * 3 / 4
				: left - left * 3 / 4;
	if (n > cap)
		n = cap;
	if (n < least)
		n = least;
	/* End with an entry if possible, because a gap would be in two leaves. */
	if (leaf && skew < 2 && !items->slot[start + n - 1]) {
		if (n > least && n > 1)
			n--;
		else if (n < cap && left - n > (parts - 1) * 2)
			n++;
	}
	return n;
}

/* How many indices from this one on are free, at the beginning of a leaf that is not rebuilt. */
static unsigned long free_from(const struct maple_tree *mt, unsigned long index)
{
	struct path path;

	path_walk(&path, mt, index);
	return free_at_start(mt, path.at[0].e, index - 1);
}

/* The length of the free run that begins at this item, in the next new leaf or in the leaf after
 * them. */
static unsigned long run_at(const struct store *st, unsigned int i)
{
	const struct items *items = &st->items;
	unsigned long before = items->pivot[i - 1];

	if (i < items->n)
		return items->slot[i] ? 0 : items->pivot[i] - before;
	return before == ULONG_MAX || items->slot[i - 1] ? 0 : free_from(st->mas->tree, before + 1);
}

static void build_leaves(struct store *st, struct built *built)
{
	const struct items *items = &st->items;
	unsigned int n, start = 0, parts = st->level[0].nodes;
	unsigned long min = items->min;

	built->n = 0;
	for (; parts > 0; parts--, start += n) {
		struct maple_node *node = node_take(st->mas);
		unsigned int i = built->n++;

		n = share(items, start, parts, LEAF_SLOTS, st->skew, true);
		built->slot[i] = (void *)make_node(node, items, start, n, 0, false);
		built->max[i] = items->pivot[start + n - 1];
		built->gap[i] = 0;
		if (st->mas->tree->ma_flags & MT_FLAGS_ALLOC_RANGE)
			built->gap[i] = leaf_gap(node, min, built->max[i], run_at(st, start + n));
		min = built->max[i] + 1;
	}
}

static void build_inner(struct store *st, unsigned int l, unsigned int parts, struct built *built)
{
	const struct items *items = &st->items;
	bool arange = st->mas->tree->ma_flags & MT_FLAGS_ALLOC_RANGE;
	unsigned int n, start = 0;

	built->n = 0;
	for (; parts > 0; parts--, start += n) {
		struct maple_node *node = node_take(st->mas);
		unsigned int i = built->n++;

		n = share(items, start, parts, slots_at(st, l), st->skew, false);
		built->slot[i] = (void *)make_node(node, items, start, n, l, arange);
		built->max[i] = items->pivot[start + n - 1];
		built->gap[i] = arange ? node_gap(node) : 0;
	}
}

/* --- what was replaced ----------------------------------------------------------------------- */

/* Retire a node that was rebuilt or covered, and those below it within what was rebuilt there. */
static void retire_rebuilt(const struct store *st, enode_t e, unsigned long min, unsigned long max)
{
	unsigned int level = level_of(e), end = end_of(node_of(e));
	const struct level *below = level ? &st->level[level - 1] : NULL;

	for (unsigned int i = 0; below && i <= end; i++) {
		unsigned long last = slot_max(node_of(e), i, end, max);

		if (min >= below->left_min && last <= below->right_max)
			retire_rebuilt(st, (enode_t)slots(e)[i], min, last);
		min = last + 1;
	}
	node_retire(st->mas->tree, node_of(e));
}

/* Note the range that is rebuilt at each level, in place of the bounds of neighbours. */
static void note_bounds(struct store *st)
{
	for (unsigned int l = 0; l <= st->lo.height && l < st->top; l++) {
		struct level *level = &st->level[l];

		if (!level->left)
			level->left_min = st->lo.at[l].min;
		if (!level->right)
			level->right_max = st->hi.at[l].max;
	}
	for (unsigned int l = st->top; l <= st->lo.height && !st->in_place; l++) {
		st->level[l].left_min = 0;
		st->level[l].right_max = ULONG_MAX;
	}
}

/* --- the store ------------------------------------------------------------------------------- */

static void publish(struct store *st, const struct built *built)
{
	struct maple_tree *mt = st->mas->tree;
	struct step *place = &st->lo.at[st->top];
	enode_t old;

	if (!st->in_place) {
		old = (enode_t)mt->ma_root;
		store_release(&mt->ma_root, built->n ? built->slot[0] : NULL);
		if (!built->n)
			mt->__ma_unjoined = 0;
		retire_rebuilt(st, old, 0, ULONG_MAX);
		return;
	}
	old = (enode_t)slots(place->e)[place->offset];
	store_release(&slots(place->e)[place->offset], built->slot[0]);
	if (is_arange(place->e))
		gap_set(&st->lo, st->top, built->gap[0]);
	retire_rebuilt(
		st, old, slot_min(node_of(place->e), place->offset, place->min),
		slot_max(node_of(place->e), place->offset, end_of(node_of(place->e)), place->max));
}

void rebuild(struct store *st)
{
	const struct maple_tree *mt = st->mas->tree;
	struct built built = {.n = 0};
	unsigned long min;

	note_bounds(st);
	min = st->level[0].left_min;
	if (st->level[0].nodes)
		build_leaves(st, &built);
	for (unsigned int l = 1; l < st->top; l++) {
		gather_children(st, l, &built);
		build_inner(st, l, st->level[l].nodes, &built);
	}
	if (!st->in_place && built.n > 1) {
		st->items.n = built.n;
		memcpy(st->items.pivot, built.max, sizeof(built.max));
		memcpy(st->items.slot, built.slot, sizeof(built.slot));
		memcpy(st->items.gap, built.gap, sizeof(built.gap));
		build_inner(st, st->top, 1, &built);
	}
	publish(st, &built);
	if (min > 0 && mt->ma_flags & MT_FLAGS_ALLOC_RANGE && is_node(mt->ma_root)) {
		struct path path;

		path_walk(&path, mt, min);
		gap_fix_before(mt, &path);
	}
}
