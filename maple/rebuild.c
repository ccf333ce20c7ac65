/* SPDX-License-Identifier: MIT */
/*
 * Stores that change more than one node: splits, joins of leaves too empty, ranges over many leaves,
 * new roots. One way of working serves them all:
 *
 *     level 2            [ . . L . . . . H . . ]        lo, hi: the ways to index and to last
 *                             /         \               (the same, if one leaf has both)
 *     level 1     [ . . . L ]  [ ... ]  [ . H . . ]
 *                       /     covered     \
 *     level 0     [ a b c d ]           [ e f g h ]
 *                     \__ new items _____/
 *
 * Level by level, from the leaves up, a list of items is made: what the lo node has before the way,
 * what takes the place of the things between the ways (at level 0 the entry and what is left of the
 * two ranges it cuts, above it the new nodes of the level below), and what the hi node has after the
 * way. The list fills new nodes. If there is too little for one, a neighbour is taken in; if there is
 * too much, there will be several. Where both ways use one slot and one node is to go there, that slot
 * is replaced: the one store by which everything is published. If that place is never found, the
 * list becomes a new root.
 *
 * The plan counts items and nodes, the rebuilding makes what was planned: it cannot fail. Then all old
 * nodes of what was rebuilt are retired.
 *
 * Called with the tree's lock held.
 */
#include <stdlib.h>
#include <string.h>

#include "rules.h"
#include "tree.h"

/*
 * A leaf too full shares with a neighbour: up to so many slots stay in two leaves, more become three. Two
 * could have 32, but would be full again at once; a leaf alone would be split into halves.
 */
#define LEAF_SHARED 29u

/* --- items ----------------------------------------------------------------------------------- */

static void add_entry(struct items *items, unsigned long last, void *entry)
{
	if (!entry && items->n && !items->slot[items->n - 1]) {
		items->pivot[items->n - 1] = last;
		return;
	}
	items->pivot[items->n] = last;
	items->slot[items->n++] = entry;
}

/* Slots from ... to - 1 of a leaf that goes up to max. Only the first can join what is before. */
static void add_slots(struct items *items, enode_t e, unsigned int from, unsigned int to,
		      unsigned long max)
{
	const struct maple_node *leaf = node_of(e);
	unsigned int end = end_of(leaf), n;

	if (from >= to)
		return;
	add_entry(items, slot_max(leaf, from, end, max), leaf->range.slot[from]);
	if (++from == to)
		return;
	n = items->n;
	copy_words(&items->pivot[n], &leaf->range.pivot[from], to - from);
	copy_words(&items->slot[n], &leaf->range.slot[from], to - from);
	items->n += to - from;
	if (to > end)
		items->pivot[items->n - 1] = max;
}

static void gather_leaves(struct store *st)
{
	struct items *items = &st->items;
	const struct step *lo = &st->lo.at[0], *hi = &st->hi.at[0];
	const struct maple_node *first = node_of(lo->e), *second = node_of(hi->e);
	const struct level *level = &st->level[0];
	unsigned int hi_end = end_of(second);

	items->n = 0;
	items->min = level->left ? level->left_min : lo->min;
	if (level->left)
		add_slots(items, level->left, 0, end_of(node_of(level->left)) + 1, lo->min - 1);
	add_slots(items, lo->e, 0, st->first, lo->max);
	if (st->left)
		add_entry(items, st->index - 1, first->range.slot[st->first]);
	add_entry(items, st->last, st->entry);
	if (st->right)
		add_entry(items, slot_max(second, st->second, hi_end, hi->max),
			  second->range.slot[st->second]);
	add_slots(items, hi->e, st->second + 1, hi_end + 1, hi->max);
	if (level->right)
		add_slots(items, level->right, 0, end_of(node_of(level->right)) + 1,
			  level->right_max);
}

/* Children from ... to - 1 of an inner node. */
static void add_children(struct items *items, enode_t e, unsigned int from, unsigned int to,
			 unsigned long max)
{
	const struct maple_node *node = node_of(e);
	unsigned int n = items->n;

	if (from >= to)
		return;
	copy_words(&items->pivot[n], pivots(e) + from, to - from);
	copy_words(&items->slot[n], slots(e) + from, to - from);
	if (is_arange(e))
		copy_words(&items->gap[n], gaps(e) + from, to - from);
	items->n += to - from;
	if (to > end_of(node))
		items->pivot[items->n - 1] = max;
}

/* The new nodes of a level: what the level above gets in place of the old ones. */
#define MAX_BUILT 8
struct built {
	unsigned int n;
	unsigned long max[MAX_BUILT];
	void *slot[MAX_BUILT];
	unsigned long gap[MAX_BUILT];
};

static void gather_children(struct store *st, unsigned int l, const struct built *built)
{
	struct items *items = &st->items;
	const struct step *lo = &st->lo.at[l], *hi = &st->hi.at[l];
	const struct level *level = &st->level[l];

	items->n = 0;
	items->min = level->left ? level->left_min : lo->min;
	if (level->left)
		add_children(items, level->left, 0, end_of(node_of(level->left)) + 1, lo->min - 1);
	add_children(items, lo->e, 0, lo->offset, lo->max);
	for (unsigned int i = 0; i < built->n; i++) {
		items->pivot[items->n] = built->max[i];
		items->slot[items->n] = built->slot[i];
		items->gap[items->n++] = built->gap[i];
	}
	add_children(items, hi->e, hi->offset + 1, end_of(node_of(hi->e)) + 1, hi->max);
	if (level->right)
		add_children(items, level->right, 0, end_of(node_of(level->right)) + 1,
			     level->right_max);
}

/* --- the plan -------------------------------------------------------------------------------- */

static unsigned int slots_at(const struct store *st, unsigned int level)
{
	return level && st->mas->tree->ma_flags & MT_FLAGS_ALLOC_RANGE ? ARANGE_SLOTS : LEAF_SLOTS;
}

static unsigned int nodes_for(unsigned int n, unsigned int cap)
{
	return (n + cap - 1) / cap;
}

/* Take the previous (next) node of a level in: above it, the way goes to its slot. */
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

/*
 * n items do not suit a node of this level: take a neighbour in if both have at most `room`, a sibling
 * rather than a cousin. With `must` any neighbour, for n items must not stay alone. False: none was
 * taken.
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
		left_n = end_of(node_of(before.at[l].e)) + 1;
	if ((right_sibling || must || !left_sibling) && path_next(&after, l))
		right_n = end_of(node_of(after.at[l].e)) + 1;
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

/* Level 0: the items, with a neighbour if they are few, or too many for one leaf. */
static void plan_leaves(struct store *st)
{
	bool one_leaf = st->lo.at[0].e == st->hi.at[0].e, nothing, few, many, shared = false;
	struct items *items = &st->items;

	st->level[0].left = st->level[0].right = 0;
	gather_leaves(st);
	nothing = items->n == 1 && !items->slot[0];
	few = items->n < LEAF_FEW && (!one_leaf || items->n < end_of(node_of(st->lo.at[0].e)) + 1);
	many = items->n > LEAF_SLOTS && one_leaf && abs(st->skew) < 2;
	if (((nothing || few) && take_neighbour(st, 0, items->n, JOIN_ROOM(LEAF_SLOTS), nothing)) ||
	    (many && take_neighbour(st, 0, items->n, 3 * LEAF_SLOTS, false))) {
		gather_leaves(st);
		st->skew = 0;
		shared = many;
	}
	st->level[0].n = items->n;
	st->level[0].nodes = leaves_for(items->n, shared);
	st->nodes = st->level[0].nodes;
	if (items->n == 1 && !items->slot[0])
		st->nodes = st->level[0].nodes = 0; /* nothing is left in the tree */
}

/* A level above it; false if nothing is to be made there, for its only child can be the root. */
static bool plan_level(struct store *st, unsigned int l)
{
	const struct step *lo = &st->lo.at[l], *hi = &st->hi.at[l];
	unsigned int few = slots_at(st, l) == ARANGE_SLOTS ? ARANGE_FEW : LEAF_FEW, n;
	struct level *level = &st->level[l];
	bool fewer;

	n = lo->offset + st->level[l - 1].nodes + end_of(node_of(hi->e)) - hi->offset;
	fewer = lo->e != hi->e || n < end_of(node_of(lo->e)) + 1;
	level->left = level->right = 0;
	if (n < few && fewer && take_neighbour(st, l, n, JOIN_ROOM(slots_at(st, l)), n == 1)) {
		if (level->left)
			n += end_of(node_of(level->left)) + 1;
		if (level->right)
			n += end_of(node_of(level->right)) + 1;
	}
	level->n = n;
	level->nodes = n == 1 ? 0 : nodes_for(n, slots_at(st, l));
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
	/* Here l is where the list of level l - 1 goes: into a slot, or it is the new root. */
	st->top = l;
	st->in_place = st->nodes && l <= height && is_place(st, l);
	if (!st->in_place && st->nodes && st->level[l - 1].nodes > 1)
		st->nodes++;
}

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
	/* Rather end with an entry than with a gap that would be in two leaves. */
	if (leaf && skew < 2 && !items->slot[start + n - 1]) {
		if (n > least && n > 1)
			n--;
		else if (n < cap && left - n > (parts - 1) * 2)
			n++;
	}
	return n;
}

static inline void fill_words(void *to, uint64_t value, unsigned int n)
{
	uint64_t *target = to;

	for (unsigned int i = 0; i < n; i++) {
		target[i] = value;
		KEEP(i); /* a call for so few would cost more */
	}
}

static enode_t make_node(struct maple_node *node, const struct items *items, unsigned int start,
			 unsigned int n, unsigned int level, bool arange)
{
	enode_t e = encode(node, level, arange);
	unsigned int cap = slots_of(e);

	node->meta = n - 1;
	copy_words(pivots(e), &items->pivot[start], n - 1);
	fill_words(pivots(e) + n - 1, ULONG_MAX, cap - n);
	copy_words(slots(e), &items->slot[start], n);
	fill_words(slots(e) + n, 0, cap - n);
	if (is_arange(e)) {
		copy_words(gaps(e), &items->gap[start], n);
		fill_words(gaps(e) + n, 0, cap - n);
	}
	return e;
}

/* How many indices from this one on are free: the first slot of a leaf that is not rebuilt. */
static unsigned long free_from(const struct maple_tree *mt, unsigned long index)
{
	struct path path;
	const struct step *leaf = &path.at[0];

	path_walk(&path, mt, index);
	if (node_of(leaf->e)->range.slot[leaf->offset])
		return 0;
	return slot_max(node_of(leaf->e), leaf->offset, end_of(node_of(leaf->e)), leaf->max) -
	       index + 1;
}

/* The free run that begins at this item, in the next of the new leaves or in the leaf after them. */
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

/* From what to what each level is rebuilt: kept where the bounds of neighbours were. */
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
		gap_fix_before(&path);
	}
}
