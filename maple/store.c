/* SPDX-License-Identifier: MIT */
/*
 * The mas_ calls that store: what a store will do is decided first (plan.c), with the number of nodes
 * it takes; then the nodes are had in hand (pool.c); then it is done (leaf.c, rebuild.c), and cannot
 * fail.
 *
 * Called with the tree's lock held.
 */
#include <errno.h>

#include "misuse.h"

static void store_commit(struct store *st)
{
	switch (st->type) {
	case wr_none:
		break;
	case wr_new_root:
	case wr_store_root:
		root_store(st);
		break;
	case wr_split_store:
	case wr_rebalance:
	case wr_spanning_store:
		rebuild(st);
		break;
	default:
		leaf_store(st);
	}
	mas_reset(st->mas);
	st->mas->status = ma_active;
}

/* --- the calls ------------------------------------------------------------------------------- */

static bool is_wrong(const struct ma_state *mas, const void *entry)
{
	return mas->index > mas->last || is_reserved(entry);
}

static int store_entry(struct ma_state *mas, void *entry, gfp_t gfp, const char *call)
{
	struct store st;

	check_locked(mas->tree, call);
	if (is_wrong(mas, entry))
		return mas_fail(mas, -EINVAL);
	store_plan(&st, mas, entry);
	if (st.nodes > nodes_in_hand(mas) && nodes_get(mas, st.nodes, gfp))
		return mas_fail(mas, -ENOMEM);
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
	store_plan(&st, mas, entry);
	/* Nothing was found for the caller. */
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
	void *entry = mas_walk(mas);

	if (entry && mas_store_gfp(mas, NULL, GFP_KERNEL))
		return NULL;
	return entry;
}
