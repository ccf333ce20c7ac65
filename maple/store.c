/* SPDX-License-Identifier: MIT */
/*
 * Stores: what a store will do is decided first (store_plan()), with the number of nodes it takes; then
 * the nodes are had in hand; then it is done, and cannot fail.
 *
 *     the tree has no node      store_root     0 or 1 node
 *     0 ... ULONG_MAX           new_root       1
 *     one slot, exactly         exact_fit      0    the slot
 *     one pivot moves           slot_store     0    the pivot; without readers any change of
 *                                                   ranges that keeps their number
 *     in the last, free slot    append         0    slots beyond the end, then the one that shows them
 *     one leaf                  node_store     1    a new leaf, then the parent's slot; without
 *                                                   readers in place, and 0
 *     else                      rebuild.c: split_store, rebalance, spanning_store
 *
 * With readers, a store that is done in place is one word, before and after which the tree is whole.
 *
 * Called with the tree's lock held.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "misuse.h"

/* --- the decision ---------------------------------------------------------------------------- */

static bool in_rcu(const struct store *st)
{
	return st->mas->tree->ma_flags & MT_FLAGS_USE_RCU;
}

static void plan_root(struct store *st)
{
	const void *root = st->mas->tree->ma_root;
	bool single = st->index == 0 && st->last == 0 && ((uintptr_t)st->entry & 3) != ENODE_MARK;

	st->type = wr_store_root;
	st->nodes = st->entry && !single;
	if (!st->entry && (!root || st->index > 0))
		st->type = wr_none;
}

/* A free entry joins free neighbours within the leaves. */
static void widen(struct store *st)
{
	const struct maple_node *first = node_of(st->lo.at[0].e), *second = node_of(st->hi.at[0].e);
	unsigned long min = slot_min(first, st->first, st->lo.at[0].min);
	unsigned int end = end_of(second);
	unsigned long max = slot_max(second, st->second, end, st->hi.at[0].max);

	st->left = min < st->index;
	st->right = st->last < max;
	if (st->entry)
		return;
	if (!first->range.slot[st->first]) {
		st->index = min;
		st->left = false;
	} else if (!st->left && st->first > 0 && !first->range.slot[st->first - 1]) {
		st->first--;
		st->index = slot_min(first, st->first, st->lo.at[0].min);
	}
	if (!second->range.slot[st->second]) {
		st->last = max;
		st->right = false;
	} else if (!st->right && st->second < end && !second->range.slot[st->second + 1]) {
		st->second++;
		st->last = slot_max(second, st->second, end, st->hi.at[0].max);
	}
}

/* Stores that change one word of the leaf, or words that no reader can see yet. */
static bool plan_in_place(struct store *st, unsigned int old_end)
{
	void *const *slot = node_of(st->lo.at[0].e)->range.slot;
	bool rcu = in_rcu(st);

	st->nodes = 0;
	if (st->first == st->second && !st->left && !st->right) {
		st->type = slot[st->first] == st->entry ? wr_none : wr_exact_fit;
	} else if (st->second == st->first + 1 && st->left != st->right &&
		   slot[st->left ? st->second : st->first] == st->entry) {
		st->type = wr_slot_store;
	} else if (st->first == old_end && (st->entry || !rcu) && (!rcu || !slot[old_end])) {
		st->type = wr_append;
	} else if (!rcu) {
		st->type = st->end == old_end ? wr_slot_store : wr_node_store;
	} else {
		return false;
	}
	return true;
}

static void plan_skew(struct store *st)
{
	const struct step *leaf = &st->lo.at[0];
	const struct maple_node *node = node_of(leaf->e);
	unsigned int old_end = end_of(node);

	if (!st->entry || leaf->e != st->hi.at[0].e)
		st->skew = 0;
	else if (st->second == old_end && (!st->right || !node->range.slot[old_end]))
		st->skew = leaf->max == ULONG_MAX ? 2 : 1;
	else if (st->first == 0 && (!st->left || !node->range.slot[0]))
		st->skew = leaf->min == 0 ? -2 : -1;
	else
		st->skew = 0;
}

static void plan_rebuild(struct store *st, enum store_type type)
{
	plan_skew(st);
	if (st->lo.at[0].e == st->hi.at[0].e) {
		path_copy(&st->hi, &st->lo);
		st->hi.at[0].offset = st->second;
	}
	rebuild_plan(st);
	st->type = type;
}

static bool ends_in_slot(const struct step *leaf, unsigned long last)
{
	const struct maple_node *node = node_of(leaf->e);

	return last <= slot_max(node, leaf->offset, end_of(node), leaf->max);
}

static void plan_nodes(struct store *st)
{
	const struct maple_tree *mt = st->mas->tree;
	unsigned int old_end, count;

	path_walk(&st->lo, mt, st->index);
	if (st->last > st->lo.at[0].max) {
		path_walk(&st->hi, mt, st->last);
	} else {
		st->hi.at[0] = st->lo.at[0]; /* the rest of the way only if it is needed */
		if (!ends_in_slot(&st->lo.at[0], st->last))
			st->hi.at[0].offset = search15(pivots(st->lo.at[0].e), st->last);
	}
	st->first = st->lo.at[0].offset;
	st->second = st->hi.at[0].offset;
	widen(st);
	if (st->lo.at[0].e != st->hi.at[0].e) {
		plan_rebuild(st, wr_spanning_store);
		return;
	}
	old_end = end_of(node_of(st->lo.at[0].e));
	count = st->first + st->left + 1 + st->right + old_end - st->second;
	st->end = count - 1;
	if (count > LEAF_SLOTS)
		plan_rebuild(st, wr_split_store);
	else if ((count < 4 && count <= old_end && st->lo.height) || (count == 1 && !st->entry))
		plan_rebuild(st, wr_rebalance);
	else if (!plan_in_place(st, old_end)) {
		st->type = wr_node_store;
		st->nodes = 1;
	}
}

static void store_plan(struct store *st, struct ma_state *mas, void *entry)
{
	st->mas = mas;
	st->entry = entry;
	st->index = mas->index;
	st->last = mas->last;
	if (!is_node(mas->tree->ma_root)) {
		plan_root(st);
	} else if (st->index == 0 && st->last == ULONG_MAX) {
		st->type = wr_new_root;
		st->nodes = entry ? 1 : 0;
	} else {
		plan_nodes(st);
	}
	mas->store_type = st->type;
}

/* --- gaps ------------------------------------------------------------------------------------ */

/* What a store in one leaf does to the gaps kept above it; noted before, done after. */
struct gap_change {
	bool own, scan, before;
	unsigned long gap;
};

static void note_taken(struct gap_change *change, const struct store *st, unsigned long old)
{
	const struct step *at = &st->lo.at[0];
	const struct maple_node *leaf = node_of(at->e);
	unsigned int end = end_of(leaf);
	unsigned long longest = 0;

	for (unsigned int i = st->first; i <= st->second; i++) {
		unsigned long run;

		if (leaf->range.slot[i])
			continue;
		run = slot_max(leaf, i, end, at->max) - slot_min(leaf, i, at->min) + 1;
		if (i == end)
			run += free_after(&st->lo);
		if (run > longest)
			longest = run;
	}
	change->own = change->scan = longest == old;
	change->before = st->first == 0 && !leaf->range.slot[0];
}

static void note_gap(struct gap_change *change, const struct store *st)
{
	const struct step *leaf = &st->lo.at[0], *above = leaf + 1;
	unsigned long old;

	*change = (struct gap_change){false, false, false, 0};
	if (st->lo.height == 0 || !is_arange(above->e))
		return;
	old = gaps(above->e)[above->offset];
	if (st->entry) {
		note_taken(change, st, old);
		return;
	}
	change->gap = st->last - st->index + 1;
	if (st->last == leaf->max)
		change->gap += free_after(&st->lo);
	change->own = change->gap > old;
	change->before = st->index == leaf->min;
}

static void change_gap(const struct gap_change *change, struct store *st)
{
	const struct step *leaf = &st->lo.at[0];
	unsigned long gap = change->gap;

	if (change->scan)
		gap = leaf_gap(node_of(leaf->e), leaf->min, leaf->max, free_after(&st->lo));
	if (change->own)
		gap_set(&st->lo, 1, gap);
	if (change->before)
		gap_fix_before(&st->lo);
}

/* --- stores ---------------------------------------------------------------------------------- */

/* A leaf of its slots in `first`, without what the store covers, with the entry. */
static void fill_leaf(struct maple_node *new, const struct maple_node *old, const struct store *st)
{
	unsigned int n = st->first, end = end_of(old), second = st->second;

	memcpy(new, old, NODE_BYTES);
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
		n++;
	}
	for (unsigned int i = second + 1; i <= end; i++, n++) {
		new->range.slot[n] = old->range.slot[i];
		if (n < LEAF_SLOTS - 1)
			new->range.pivot[n] = i < end ? old->range.pivot[i] : ULONG_MAX;
	}
	for (; n <= end; n++) {
		new->range.slot[n] = NULL;
		if (n < LEAF_SLOTS - 1)
			new->range.pivot[n] = ULONG_MAX;
	}
	new->meta = st->end;
}

/* After a change in place: who has looked at the node looks again. */
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
	struct maple_node *leaf = node_of(st->lo.at[0].e), new;

	if (st->type == wr_exact_fit) {
		store_release(&leaf->range.slot[st->first], st->entry);
	} else if (st->type == wr_append) {
		append(st, leaf);
	} else if (st->type == wr_slot_store && in_rcu(st)) {
		store_release(&leaf->range.pivot[st->first], st->left ? st->index - 1 : st->last);
		stamp(leaf, st->end);
	} else {
		fill_leaf(&new, leaf, st);
		memcpy(&leaf->range, &new.range, sizeof(new.range));
		stamp(leaf, st->end);
	}
}

static void store_leaf(struct store *st)
{
	struct step *leaf = &st->lo.at[0], *above = leaf + 1;
	struct maple_tree *mt = st->mas->tree;
	struct maple_node *old = node_of(leaf->e), *new;
	struct gap_change change;

	note_gap(&change, st);
	if (st->nodes == 0) {
		store_in_place(st);
		change_gap(&change, st);
		return;
	}
	new = node_take(st->mas);
	fill_leaf(new, old, st);
	leaf->e = encode(new, 0, false);
	if (st->lo.height)
		store_release(&slots(above->e)[above->offset], (void *)leaf->e);
	else
		store_release(&mt->ma_root, (void *)leaf->e);
	change_gap(&change, st);
	node_retire(mt, old);
}

/* A leaf as root: what is before index, the entry, what is after last. */
static void store_new_root(struct store *st)
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

static void store_commit(struct store *st)
{
	switch (st->type) {
	case wr_none:
		break;
	case wr_new_root:
	case wr_store_root:
		store_new_root(st);
		break;
	case wr_split_store:
	case wr_rebalance:
	case wr_spanning_store:
		rebuild(st);
		break;
	default:
		store_leaf(st);
	}
	st->mas->node = NULL;
	st->mas->status = ma_active;
}

/* --- the calls ------------------------------------------------------------------------------- */

static int fail(struct ma_state *mas, int error)
{
	mas->node = NULL;
	mas->status = ma_error;
	mas->error = error;
	return error;
}

static bool is_wrong(const struct ma_state *mas, const void *entry)
{
	return mas->index > mas->last || is_reserved(entry);
}

static int store_entry(struct ma_state *mas, void *entry, gfp_t gfp, const char *call)
{
	struct store st;

	check_locked(mas->tree, call);
	if (is_wrong(mas, entry))
		return fail(mas, -EINVAL);
	store_plan(&st, mas, entry);
	if (st.nodes > nodes_in_hand(mas) && nodes_get(mas, st.nodes, gfp))
		return fail(mas, -ENOMEM);
	store_commit(&st);
	return 0;
}

SHEAF_PUBLIC void *mas_store(struct ma_state *mas, void *entry)
{
	void *old = mtree_load(mas->tree, mas->index);

	if (store_entry(mas, entry, GFP_NOWAIT, "mas_store") == 0 && (mas->sheaf || mas->alloc))
		mas_destroy(mas);
	return old;
}

SHEAF_PUBLIC int mas_store_gfp(struct ma_state *mas, void *entry, gfp_t gfp)
{
	int error = store_entry(mas, entry, gfp, "mas_store_gfp");

	if (mas->sheaf || mas->alloc)
		mas_destroy(mas);
	return error;
}

SHEAF_PUBLIC int mas_preallocate(struct ma_state *mas, void *entry, gfp_t gfp)
{
	struct store st;

	if (is_wrong(mas, entry))
		return fail(mas, -EINVAL);
	store_plan(&st, mas, entry);
	if (st.nodes && nodes_get(mas, st.nodes, gfp)) {
		mas_destroy(mas);
		mas_reset(mas);
		return -ENOMEM;
	}
	return 0;
}

SHEAF_PUBLIC void mas_store_prealloc(struct ma_state *mas, void *entry)
{
	unsigned int had = nodes_in_hand(mas);

	mas->node_request = 0;
	if (!store_entry(mas, entry, GFP_NOWAIT, "mas_store_prealloc"))
		check_prepared(mas, had);
	else
		fprintf(stderr,
			"libsheaf: mas_store_prealloc(%lu ... %lu) on maple tree %p failed (%d): "
			"nothing was stored; preallocate for this range and entry, and keep the "
			"lock until "
			"the store\n",
			mas->index, mas->last, (void *)mas->tree, mas->error);
	if (mas->sheaf || mas->alloc)
		mas_destroy(mas);
}

SHEAF_PUBLIC bool mas_nomem(struct ma_state *mas, gfp_t gfp)
{
	bool internal = !mt_external_lock(mas->tree);
	int error;

	if (!mas_is_err(mas) || mas->error != -ENOMEM)
		return false;
	if (internal)
		mtree_unlock(mas->tree);
	error = nodes_get(mas, (unsigned int)mas->node_request, gfp);
	if (internal)
		mtree_lock(mas->tree);
	if (error)
		return false;
	mas_reset(mas);
	return true;
}

SHEAF_PUBLIC void *mas_erase(struct ma_state *mas)
{
	void *entry = mas_descend(mas, mas->index);

	if (entry && mas_store_gfp(mas, NULL, GFP_KERNEL))
		return NULL;
	return entry;
}
