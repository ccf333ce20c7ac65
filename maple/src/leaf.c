/* SPDX-License-Identifier: MIT */
/*
 * Stores in one leaf, and in a tree without nodes. With readers, a store in place changes one word
 * that they can see, and the tree is consistent before and after it; any other store writes a new
 * leaf and publishes it with one word.
 *
 * A store into free slots that are neighbours moves the pivots between them, which changes no
 * result; then it stores the slot. A reader may have read an entry or a pivot before: so the leaf
 * is stamped before the first pivot, and again before the slot.
 *
 *     before         | a | free . . . | free  | free . . | b |
 *     the pivots     | a | free | free . . | free  . . . | b |      still all free
 *     the slot       | a | free |   entry  | free  . . . | b |
 *
 * After a store of NULL, the stored gaps of the nodes above are raised, rarely in more than one
 * node. If it is more, or if a free run continues in a leaf below another node, the whole path is
 * walked.
 *
 * Called with the tree's lock held.
 */
#include <string.h>

#include "rebuild.h"

/* --- gaps ------------------------------------------------------------------------------------ */

/* How many indices are free right after the leaf. */
static unsigned long after_leaf(struct store *st)
{
	const struct ma_state *mas = st->mas;

	if (mas->max == ULONG_MAX)
		return 0;
	if (mas->parent_offset == end_of(node_of(mas->parent))) {
		store_way(st);
		return free_after(mas->tree, &st->lo);
	}
	return free_at_start(mas->tree, child(mas->parent, (unsigned int)mas->parent_offset + 1),
			     mas->max);
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
	gap_fix_before(mas->tree, &st->lo);
	st->has_way = false;
}

/* The leaf has this run now. */
static void note_freed(struct store *st)
{
	const struct ma_state *mas = st->mas;
	unsigned long run = st->last - st->index + 1;

	if (!is_arange(mas->parent))
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
 * downwards. This may also move a slot and two pivots in front of them, which are written
 * afterwards.
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

/* Readers that have read the node read it again: called before a pivot is moved, and after it. */
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

static void set_pivot(struct maple_node *leaf, unsigned int i, unsigned long pivot)
{
	if (leaf->range.pivot[i] != pivot)
		store_release(&leaf->range.pivot[i], pivot);
}

/* Store into slot `into` of the free slots first ... second: each of the others keeps at least one
 * index. */
static void run_store(struct store *st, struct maple_node *leaf)
{
	unsigned int into = st->into, i;
	unsigned long bound;

	stamp(leaf, st->end);
	for (i = into, bound = st->index - 1; i-- > st->first; bound--) {
		if (i + 1 < into && leaf->range.pivot[i] <= bound)
			break;
		set_pivot(leaf, i, bound);
	}
	for (i = into, bound = st->last; i < st->second; i++, bound++) {
		if (i > into && leaf->range.pivot[i] >= bound)
			break;
		set_pivot(leaf, i, bound);
	}
	stamp(leaf, st->end);
	store_release(&leaf->range.slot[into], st->entry);
}

static void slot_store(struct store *st, struct maple_node *leaf)
{
	stamp(leaf, st->end);
	store_release(&leaf->range.pivot[st->first], st->left ? st->index - 1 : st->last);
	stamp(leaf, st->end);
}

/* As fill_leaf(), and neighbouring NULLs become one. */
static __attribute__((noinline)) void fill_compact(struct maple_node *new, struct store *st)
{
	gather_leaf(st);
	make_node(new, &st->items, 0, st->items.n, 0, false);
}

/* Without readers. */
static void rewrite(struct store *st, struct maple_node *leaf)
{
	uint64_t old = leaf->meta;
	struct maple_node new;

	if (st->compact) {
		fill_compact(leaf, st);
		st->end = (unsigned int)leaf->meta;
		leaf->meta = old & ~META_CUT;
		stamp(leaf, st->end);
	} else {
		fill_leaf(&new, leaf, st);
		memcpy(&leaf->range, &new.range, sizeof(new.range));
		stamp(leaf, st->end);
	}
}

static void store_in_place(struct store *st)
{
	struct maple_node *leaf = st->mas->node;

	if (st->type == wr_exact_fit) {
		store_release(&leaf->range.slot[st->first], st->entry);
	} else if (st->type == wr_append) {
		append(st, leaf);
	} else if (st->type == wr_run_store) {
		run_store(st, leaf);
	} else if (st->type == wr_insert) {
		leaf_insert(st);
	} else if (st->type == wr_slot_store && in_rcu(st->mas->tree)) {
		slot_store(st, leaf);
	} else {
		rewrite(st, leaf);
	}
}

/* NULL was stored: the whole free run around it in the leaf. */
static void whole_run(struct store *st)
{
	const struct ma_state *mas = st->mas;
	const struct maple_node *leaf = mas->node;
	unsigned int end = end_of(leaf), nulls, n;

	if (st->type == wr_exact_fit && !KERNEL_RULES) {
		nulls = st->nulls;
		n = st->first;
	} else {
		nulls = null_slots(leaf);
		n = st->compact ? search15(leaf->range.pivot, st->index) : st->first + st->left;
	}
	st->index = slot_min(leaf, run_first(nulls, n), mas->min);
	st->last = slot_max(leaf, run_last(nulls, n, end), end, mas->max);
}

/* A store of an entry makes no run longer, and stored gaps may be too large (gap.c). */
static void note_stored(struct store *st)
{
	if (st->entry)
		return;
	if (unlikely(st->mas->tree->__ma_unjoined))
		leaf_emptied(st->mas);
	whole_run(st);
	note_freed(st);
}

void leaf_store(struct store *st)
{
	struct ma_state *mas = st->mas;
	struct maple_node *old = mas->node, *new;

	if (st->nodes == 0) {
		store_in_place(st);
		note_stored(st);
		return;
	}
	new = node_take(mas);
	if (unlikely(st->compact))
		fill_compact(new, st);
	else
		fill_leaf(new, old, st);
	if (mas->parent)
		store_release(&slots(mas->parent)[mas->parent_offset],
			      (void *)encode(new, 0, false));
	else
		store_release(&mas->tree->ma_root, (void *)encode(new, 0, false));
	mas->node = new;
	st->has_way = false;
	note_stored(st);
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
	mt->__ma_unjoined = 0;
	if (is_node(root))
		subtree_retire(mt, (enode_t)root);
}
