/* SPDX-License-Identifier: MIT */
/*
 * Slots that move from old nodes into new ones: the remaining slots of the nodes on the two paths
 * and of joined neighbours, and between them the new entry (at level 0) or the nodes built one
 * level below.
 *
 * Called with the tree's lock held.
 */
#include "rebuild.h"

static void add_entry(struct items *items, unsigned long last, void *entry)
{
	if (!entry && items->n && !items->slot[items->n - 1]) {
		items->pivot[items->n - 1] = last;
		return;
	}
	items->pivot[items->n] = last;
	items->slot[items->n++] = entry;
}

/* Slots from ... to - 1 of a leaf that goes up to max. Only the first can be joined with the slot
 * before it. */
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

void gather_leaves(struct store *st)
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

void gather_children(struct store *st, unsigned int l, const struct built *built)
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
