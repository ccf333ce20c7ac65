/* SPDX-License-Identifier: MIT */
/*
 * Stores in one leaf, and in a tree without nodes. With readers, a store in place changes one word,
 * and the tree is consistent before and after it; any other store writes a new leaf and publishes
 * it with one word.
 *
 * After a store of NULL, the stored gaps of the nodes above are raised, rarely in more than one
 * node. If it is more, or if a free run continues in a leaf below another node, the whole path is
 * walked.
 *
 * Called with the tree's lock held.
 */
#include <string.h>

#include "tree.h"

/* --- gaps ------------------------------------------------------------------------------------ */

/* How many indices are free right after the leaf. */
static unsigned long after_leaf(struct store *st)
{
	const struct ma_state *mas = st->mas;

	if (mas->max == ULONG_MAX)
		return 0;
	if (mas->parent_offset == end_of(node_of(mas->parent))) {
		store_way(st);
		return free_after(&st->lo);
	}
	return free_at_start(child(mas->parent, (unsigned int)mas->parent_offset + 1), mas->max);
}

/* The leaf now has a run of this length. */
static void raise_gap(struct store *st, unsigned long gap)
{
	const struct ma_state *mas = st->mas;
	unsigned long *kept = &gaps(mas->parent)[mas->parent_offset];

	if (gap <= *kept)
		return;
	if (mas->parent != (enode_t)mas->tree->ma_root && gap > node_gap(node_of(mas->parent))) {
		store_way(st);
		gap_set(&st->lo, 1, gap);
	} else {
		*kept = gap;
	}
}

/* The leaf now begins with a free run, which may be the end of a run of the previous leaf. */
static void raise_before(struct store *st)
{
	const struct ma_state *mas = st->mas;

	if (mas->parent_offset > 0) {
		const struct maple_node *before =
			node_of(child(mas->parent, (unsigned int)mas->parent_offset - 1));

		if (before->range.slot[end_of(before)])
			return;
	}
	store_way(st);
	gap_fix_before(&st->lo);
}

/* A store of an entry makes no run longer, and stored gaps may be too large (gap.c). */
static void note_freed(struct store *st)
{
	const struct ma_state *mas = st->mas;
	unsigned long run = st->last - st->index + 1;

	if (st->entry || !is_arange(mas->parent))
		return;
	if (st->last == mas->max)
		run += after_leaf(st);
	raise_gap(st, run);
	if (st->index == mas->min && mas->min > 0)
		raise_before(st);
}

/* --- a leaf ---------------------------------------------------------------------------------- */

/* Word i + 1 is pivot i; the first is meta. */
static inline any_word *words(const struct maple_node *node)
{
	return (any_word *)(uintptr_t)node;
}

static inline void copy_leaf(struct maple_node *new, const struct maple_node *old)
{
#pragma GCC unroll 16
	for (unsigned int i = 0; i < NODE_BYTES / sizeof(pair); i++)
		copy_pair((pair *)new + i, (const pair *)old + i);
}

/*
 * Move the slots behind those that a store covers to their new place, in pairs from the end
 * downwards. A slot and two pivots in front of them may be moved, too, and are written afterwards.
 */
static inline void move_rest(struct maple_node *new, const struct maple_node *old, unsigned int to,
			     unsigned int from)
{
	unsigned int n = LEAF_SLOTS - (from > to ? from : to);

	for (unsigned int i = n; (int)i > 0; i -= 2) {
		copy_pair(&new->range.slot[to + i - 2], &old->range.slot[from + i - 2]);
		copy_pair(words(new) + to + i - 2, words(old) + from + i - 2);
	}
	for (unsigned int i = to + n; i < LEAF_SLOTS; i++) {
		new->range.slot[i] = NULL;
		new->range.pivot[i - 1] = ULONG_MAX;
		KEEP(i); /* otherwise the compiler would clear two words by a call */
	}
}

/* Fill a leaf with the old slots, without those that the store covers, and with the entry. */
static void fill_leaf(struct maple_node *new, const struct maple_node *old, const struct store *st)
{
	unsigned int n = st->first, second = st->second, end = end_of(old);
	unsigned int next = n + st->left + 1 + st->right;

	copy_leaf(new, old);
	if (next != second + 1) {
		move_rest(new, old, next, second + 1);
		words(new)[n] = words(old)[n];
	}
	if (st->left)
		new->range.pivot[n++] = st->index - 1;
	new->range.slot[n] = st->entry;
	if (n < LEAF_SLOTS - 1)
		new->range.pivot[n] = n == st->end ? ULONG_MAX : st->last;
	n++;
	if (st->right) {
		new->range.slot[n] = old->range.slot[second];
		if (n < LEAF_SLOTS - 1)
			new->range.pivot[n] = second < end ? old->range.pivot[second] : ULONG_MAX;
	}
	new->meta = st->end;
}

/* Called after a change in place: readers that have read the node read it again. */
static void stamp(struct maple_node *leaf, unsigned int end)
{
	store_release(&leaf->meta, ((leaf->meta & ~META_END) | end) + META_STEP);
}

static void append(struct store *st, struct maple_node *leaf)
{
	unsigned int n = st->first + st->left;

	if (st->right)
		store_relaxed(&leaf->range.slot[n + 1], leaf->range.slot[st->first]);
	/* In ascending order: a search that counts a pivot counts those before it. */
	if (st->left)
		store_release(&leaf->range.pivot[n - 1], st->index - 1);
	if (st->right)
		store_release(&leaf->range.pivot[n], st->last);
	stamp(leaf, st->end);
	store_release(&leaf->range.slot[n], st->entry);
}

static void store_in_place(struct store *st)
{
	struct maple_node *leaf = st->mas->node, new;

	if (st->type == wr_exact_fit) {
		store_release(&leaf->range.slot[st->first], st->entry);
	} else if (st->type == wr_append) {
		append(st, leaf);
	} else if (st->type == wr_slot_store && in_rcu(st->mas->tree)) {
		store_release(&leaf->range.pivot[st->first], st->left ? st->index - 1 : st->last);
		stamp(leaf, st->end);
	} else {
		fill_leaf(&new, leaf, st);
		memcpy(&leaf->range, &new.range, sizeof(new.range));
		stamp(leaf, st->end);
	}
}

void leaf_store(struct store *st)
{
	struct ma_state *mas = st->mas;
	struct maple_node *old = mas->node, *new;

	if (st->nodes == 0) {
		store_in_place(st);
		note_freed(st);
		return;
	}
	new = node_take(mas);
	fill_leaf(new, old, st);
	if (mas->parent)
		store_release(&slots(mas->parent)[mas->parent_offset],
			      (void *)encode(new, 0, false));
	else
		store_release(&mas->tree->ma_root, (void *)encode(new, 0, false));
	mas->node = new;
	st->has_way = false;
	note_freed(st);
	node_retire(mas->tree, old);
}

/* Make a leaf the root: the range before index, the entry, the range after last. */
void root_store(struct store *st)
{
	struct maple_tree *mt = st->mas->tree;
	void *root = mt->ma_root, *first = is_node(root) || st->index == 0 ? NULL : root;
	struct maple_node *node;
	unsigned int n = 0;

	if (st->nodes == 0) {
		store_release(&mt->ma_root, st->entry);
	} else {
		node = node_take(st->mas);
		memset(node->range.pivot, 0xff, sizeof(node->range.pivot));
		memset(node->range.slot, 0, sizeof(node->range.slot));
		if (first) {
			node->range.slot[n] = first;
			node->range.pivot[n++] = 0;
		}
		if (st->index > (first ? 1 : 0))
			node->range.pivot[n++] = st->index - 1;
		node->range.slot[n] = st->entry;
		if (st->last != ULONG_MAX)
			node->range.pivot[n++] = st->last;
		node->meta = n;
		store_release(&mt->ma_root, (void *)encode(node, 0, false));
	}
	if (is_node(root))
		subtree_retire(mt, (enode_t)root);
}
