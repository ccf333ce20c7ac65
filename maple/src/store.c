/* SPDX-License-Identifier: MIT */
/*
 * The mas_ calls that store. A store is first planned, with the number of nodes it needs (plan.c).
 * Then the nodes are allocated (pool.c). Then it is carried out (leaf.c, rebuild.c) and cannot
 * fail.
 *
 * Called with the tree's lock held.
 */
#include <errno.h>

#include "misuse.h"

/* The gap reaches the end (the beginning) of the state's leaf, and may continue in the next
 * (previous) leaf. */
static void cover_after(struct ma_state *mas)
{
	const struct maple_node *leaf;

	if (mas->max == ULONG_MAX)
		return;
	if (mas->parent_offset == end_of(node_of(mas->parent))) {
		mas_join_after(mas);
		return;
	}
	leaf = node_of(child(mas->parent, (unsigned int)mas->parent_offset + 1));
	if (leaf->range.slot[0])
		return;
	if (likely(end_of(leaf)))
		mas->last = leaf->range.pivot[free_first(leaf)];
	else
		mas_join_after(mas);
}

static void cover_before(struct ma_state *mas)
{
	const struct maple_node *leaf;
	unsigned int end;

	if (mas->min == 0)
		return;
	if (mas->parent_offset == 0) {
		mas_join_before(mas);
		return;
	}
	leaf = node_of(child(mas->parent, (unsigned int)mas->parent_offset - 1));
	end = end_of(leaf);
	if (leaf->range.slot[end])
		return;
	if (likely(end))
		mas->index = leaf->range.pivot[free_last(leaf, end) - 1] + 1;
	else
		mas_join_before(mas);
}

/*
 * NULL was stored in one leaf: set the state to the whole gap, so that a search continues from the
 * next entry, not from the rest of the gap.
 */
static inline void cover_gap(struct ma_state *mas, unsigned long index, unsigned long last)
{
	KEEP(index); /* one load of both words would wait for the stores of each */
	mas->index = index;
	mas->last = last;
	if (last == mas->max)
		cover_after(mas);
	if (index == mas->min)
		cover_before(mas);
}

/* As above, after any other store. A tree without a node has at most one entry, at index 0. */
static void settle(struct store *st)
{
	struct ma_state *mas = st->mas;

	if (is_node(mas->tree->ma_root)) {
		if (!st->entry)
			mas_walk(mas);
		mas_reset(mas);
		mas->status = ma_active;
	} else {
		mas_reset(mas);
		mas->status = st->entry ? ma_root : ma_start;
	}
}

static void store_commit(struct store *st)
{
	struct ma_state *mas = st->mas;

	switch (st->type) {
	case wr_none:
		settle(st);
		return;
	case wr_new_root:
	case wr_store_root:
		root_store(st);
		settle(st);
		return;
	case wr_split_store:
	case wr_rebalance:
	case wr_spanning_store:
		if (st->keep)
			cut_split(st);
		else
			rebuild(st);
		if (!mas->tree->ma_root) {
			mas->index = 0;
			mas->last = ULONG_MAX;
		}
		settle(st);
		return;
	default:
		leaf_store(st);
	}
	if (!st->entry)
		cover_gap(mas, st->index, st->last);
	mas_reset(mas);
	mas->status = ma_active;
}

/* --- the calls ------------------------------------------------------------------------------- */

static bool is_wrong(const struct ma_state *mas, const void *entry)
{
	return mas->index > mas->last || is_reserved(entry);
}

/* The shortcut of many stores: an entry or NULL replaces the content of exactly one slot. */
static inline bool store_exact(struct store *st, struct ma_state *mas, void *entry)
{
	void **at;

	if (!is_exact_place(mas))
		return false;
	if (entry) {
		at = (void **)(uintptr_t)mas->at;
		mas->store_type = *at == entry ? wr_none : wr_exact_fit;
		tell_stored(mas->tree);
		store_release(at, entry);
	} else {
		if (!erase_plan(st, mas))
			return false;
		tell_stored(mas->tree);
		leaf_store(st);
		cover_gap(mas, st->index, st->last);
	}
	mas_reset(mas);
	mas->status = ma_active;
	return true;
}

/* Refused nodes: a store that joins no leaves may need fewer, or none. So an erase, which always
 * can do without, does not fail; nor does a store that was prepared before others were refused. */
static __attribute__((noinline)) int store_alone(struct store *st)
{
	struct ma_state *mas = st->mas;

	store_plan(st, mas, st->entry, true);
	if (st->nodes > nodes_in_hand(mas))
		return mas_fail(mas, -ENOMEM);
	mas->tree->__ma_unjoined = 1;
	tell_stored(mas->tree);
	store_commit(st);
	return 0;
}

static int store_entry(struct ma_state *mas, void *entry, gfp_t gfp, const char *call)
{
	struct store st;

	check_locked(mas->tree, call);
	if (is_wrong(mas, entry))
		return mas_fail(mas, -EINVAL);
	if (store_exact(&st, mas, entry))
		return 0;
	store_plan(&st, mas, entry, false);
	if (st.nodes && st.nodes > nodes_in_hand(mas) && unlikely(nodes_get(mas, st.nodes, gfp)))
		return store_alone(&st);
	tell_stored(mas->tree);
	store_commit(&st);
	return 0;
}

SHEAF_PUBLIC void *mas_store(struct ma_state *mas, void *entry)
{
	void *old = mas_go_to_index(mas);

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
	enum maple_status status = mas->status;
	struct store st;

	check_locked(mas->tree, "mas_preallocate");
	if (is_wrong(mas, entry))
		return mas_fail(mas, -EINVAL);
	st.nodes = 0;
	if (entry && is_exact_place(mas))
		mas->store_type = *mas->at == entry ? wr_none : wr_exact_fit;
	else
		store_plan(&st, mas, entry, false);
	/* Leave the caller's state as if nothing was found. */
	mas->status = status;
	mas->prepared = mas->node;
	mas->node = NULL;
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
		say("libsheaf: mas_store_prealloc(%lu ... %lu) on maple tree %p failed (%d): "
		    "nothing was stored; preallocate for this range and entry, and keep the "
		    "lock until the store",
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
	unsigned long index = mas->index, last = mas->last;
	void *entry = mas_walk(mas);

	if (entry)
		return mas_store_gfp(mas, NULL, GFP_NOWAIT) ? NULL : entry;
	mas->index = index;
	mas->last = last;
	if (mas->status == ma_active)
		mas_reset(mas);
	return NULL;
}
