/* SPDX-License-Identifier: MIT */
/*
 * Slots that move from old nodes into new ones: the remaining slots of the nodes on the two paths
 * and of joined neighbours, and between them the new entry (at level 0) or the nodes built one
 * level below.
 *
 * Called with the tree's lock held.
 */
#include "rebuild.h"

enode_t make_node(struct maple_node *node, const struct items *items, unsigned int start,
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

static void add_entry(struct items *items, unsigned long last, void *entry)
{
	if (!entry && items->n && !items->slot[items->n - 1]) {
		items->pivot[items->n - 1] = last;
		return;
	}
	items->pivot[items->n] = last;
	items->slot[items->n++] = entry;
}

/* Whether NULLs are neighbours in a leaf. */
static bool has_runs(const struct maple_node *leaf)
{
	unsigned int nulls = null_slots(leaf);

	return nulls & nulls >> 1 & ((1u << end_of(leaf)) - 1);
}

/* Slots from ... to - 1 of a leaf that ends at max. NULL takes the place of a NULL before it. */
static void add_slots(struct items *items, const struct maple_node *leaf, unsigned int from,
		      unsigned int to, unsigned long max, bool runs)
{
	unsigned int n = items->n;

	if (from < to && n && !items->slot[n - 1] && !leaf->range.slot[from])
		n--;
	items->n = n + (to > from ? to - from : 0);
	if (likely(!runs)) {
		copy_words(&items->pivot[n], (const any_word *)leaf + 1 + from, items->n - n);
		copy_words(&items->slot[n], &leaf->range.slot[from], items->n - n);
	} else {
		bool after_null = false;

		for (; from < to; from++) {
			void *entry = leaf->range.slot[from];

			n -= !entry & after_null;
			items->pivot[n] = word(leaf, from + 1);
			items->slot[n++] = entry;
			after_null = !entry;
		}
		items->n = n;
	}
	if (to > end_of(leaf))
		items->pivot[items->n - 1] = max;
}

static void add_leaf(struct items *items, const struct maple_node *leaf, unsigned long max)
{
	add_slots(items, leaf, 0, end_of(leaf) + 1, max, has_runs(leaf));
}

/* The new entry, and what remains of the leaf of index, from slot `from` on, and of the leaf of
 * last, which ends at max. */
static void add_store(struct store *st, const struct maple_node *first, unsigned int from,
		      const struct maple_node *second, unsigned long max)
{
	struct items *items = &st->items;
	unsigned int end = end_of(second);
	bool runs = has_runs(first);

	add_slots(items, first, from, st->first, 0, runs);
	if (st->left)
		add_entry(items, st->index - 1, first->range.slot[st->first]);
	add_entry(items, st->last, st->entry);
	if (st->right)
		add_entry(items, slot_max(second, st->second, end, max),
			  second->range.slot[st->second]);
	add_slots(items, second, st->second + 1, end + 1, max,
		  second == first ? runs : has_runs(second));
}

void gather_leaf(struct store *st)
{
	st->items.n = 0;
	add_store(st, st->mas->node, 0, st->mas->node, st->mas->max);
}

void gather_upper(struct store *st, unsigned int from)
{
	const struct ma_state *mas = st->mas;

	st->items.n = 0;
	if (from > st->first)
		add_slots(&st->items, mas->node, from, end_of(mas->node) + 1, mas->max,
			  has_runs(mas->node));
	else
		add_store(st, mas->node, from, mas->node, mas->max);
}

void gather_more(struct store *st, const struct maple_node *leaf, unsigned long max)
{
	add_leaf(&st->items, leaf, max);
}

void gather_leaves(struct store *st)
{
	struct items *items = &st->items;
	const struct step *lo = &st->lo.at[0], *hi = &st->hi.at[0];
	const struct level *level = &st->level[0];

	items->n = 0;
	items->min = level->left ? level->left_min : lo->min;
	if (level->left)
		add_leaf(items, node_of(level->left), lo->min - 1);
	if (unlikely(st->empty_before))
		add_entry(items, lo->min + st->empty_before - 1, NULL);
	add_store(st, node_of(lo->e), 0, node_of(hi->e), hi->max - st->empty_after);
	if (unlikely(st->empty_after))
		add_entry(items, hi->max, NULL);
	if (level->right)
		add_leaf(items, node_of(level->right), level->right_max);
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
