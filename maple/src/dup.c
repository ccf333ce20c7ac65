/* SPDX-License-Identifier: MIT */
/*
 * Copies a whole tree, with the nodes below each node allocated in bulk, or destroys it.
 *
 * Called with the tree's lock held (the copy's, too).
 */
#include <errno.h>
#include <string.h>

#include "misuse.h"

void subtree_retire(const struct maple_tree *mt, enode_t e)
{
	unsigned int end = end_of(node_of(e));

	for (unsigned int i = 0; level_of(e) && i <= end; i++)
		subtree_retire(mt, (enode_t)slots(e)[i]);
	node_retire(mt, node_of(e));
}

/* A duplication: the functions to call for the entries of each leaf, if any. */
struct dup {
	const struct mt_dup_ops *ops; /* or NULL */
	void *arg;
	gfp_t gfp;
};

/* Whether slot 15 of the leaf has an entry, and not a mark (cut.c). Without a branch, because which
 * leaves have a mark is random. */
static inline bool has_sixteenth(const struct maple_node *leaf)
{
	return (leaf->range.slot[LEAF_SLOTS - 1] != NULL) & !(leaf->meta & META_CUT);
}

/* Gather the entries of a leaf without the NULLs between them; returns their number. */
static unsigned int gather(const struct maple_node *leaf, void **entries)
{
	void *const *slot = leaf->range.slot;
	unsigned int n = 0;

	for (unsigned int i = 0; i < LEAF_SLOTS - 1; i++) {
		entries[n] = slot[i];
		n += slot[i] != NULL;
	}
	entries[n] = slot[LEAF_SLOTS - 1];
	return n + has_sixteenth(leaf);
}

static void undo_entries(const struct dup *d, const struct maple_node *leaf)
{
	void *entries[LEAF_SLOTS];
	unsigned int n = gather(leaf, entries);

	if (n)
		d->ops->undo(entries, n, d->arg);
}

/* Some new entries of a leaf may be invalid: then the valid ones are undone. */
static __attribute__((noinline)) int check_entries(const struct dup *d, struct maple_node *copy,
						   void *const *from)
{
	void **to = copy->range.slot;
	bool bad = false;

	for (unsigned int i = 0; i < LEAF_SLOTS; i++)
		if (from[i] && (!to[i] || is_reserved(to[i]))) {
			to[i] = NULL;
			bad = true;
		}
	if (!bad)
		return 0;
	undo_entries(d, copy);
	return -EINVAL;
}

/* Replace the entries of a leaf in a copy of it. If that fails, undo the replaced entries. */
static int replace_entries(const struct dup *d, struct maple_node *copy,
			   const struct maple_node *leaf)
{
	void *entries[LEAF_SLOTS + 1], **to = copy->range.slot, *const *from = leaf->range.slot;
	unsigned int n = gather(leaf, entries), at = 0;
	int error = likely(n) ? d->ops->copy(entries, n, d->arg) : 0;
	bool low = false;

	if (unlikely(error))
		return error;
	for (unsigned int i = 0; i < LEAF_SLOTS - 1; i++) {
		void *entry = entries[at];

		if (!from[i])
			continue;
		low |= (uintptr_t)entry < 4096;
		to[i] = entry;
		at++;
	}
	if (has_sixteenth(leaf)) {
		low |= (uintptr_t)entries[at] < 4096;
		to[LEAF_SLOTS - 1] = entries[at];
	}
	return unlikely(low) ? check_entries(d, copy, from) : 0;
}

static inline int copy_node(const struct dup *d, struct maple_node *node, enode_t e)
{
	const struct maple_node *old = node_of(e);

	memcpy(node, old, NODE_BYTES);
	return d->ops && !level_of(e) ? replace_entries(d, node, old) : 0;
}

/*
 * Free a subtree that no reader can be using; the children of a node are freed in bulk. The first
 * `made` children are ours. `undo`: the duplication that failed, if it replaced entries.
 */
static void subtree_free(enode_t e, unsigned int made, const struct dup *undo)
{
	void *nodes[LEAF_SLOTS];

	for (unsigned int i = 0; i < made; i++) {
		enode_t below = (enode_t)slots(e)[i];

		nodes[i] = node_of(below);
		if (level_of(below))
			subtree_free(below, end_of(node_of(below)) + 1, undo);
		else if (undo)
			undo_entries(undo, node_of(below));
	}
	nodes_free(made, nodes);
}

/*
 * `copy` has been given the content of a node; give it children of its own, in order. If that
 * fails, all nodes that were made below it are freed.
 */
static int dup_children(const struct dup *d, enode_t copy)
{
	void *nodes[LEAF_SLOTS];
	unsigned int n = end_of(node_of(copy)) + 1;
	void **slot = slots(copy);

	if (nodes_alloc(n, nodes, d->gfp))
		return -ENOMEM;
	for (unsigned int i = 0; i < n; i++) {
		enode_t old = (enode_t)slot[i];
		int error = copy_node(d, nodes[i], old);

		slot[i] = (void *)((enode_t)nodes[i] | (old & (NODE_BYTES - 1)));
		if (!error && level_of(old))
			error = dup_children(d, (enode_t)slot[i]);
		if (unlikely(error)) {
			nodes_free(n - i, nodes + i);
			subtree_free(copy, i, d->ops ? d : NULL);
			return error;
		}
	}
	return 0;
}

static int dup_nodes(const struct dup *d, enode_t root, void **made)
{
	enode_t copy;
	void *node;
	int error;

	if (nodes_alloc(1, &node, d->gfp))
		return -ENOMEM;
	copy = (enode_t)node | (root & (NODE_BYTES - 1));
	error = copy_node(d, node, root);
	if (!error && level_of(copy))
		error = dup_children(d, copy);
	if (error)
		nodes_free(1, &node);
	else
		*made = (void *)copy;
	return error;
}

/* A tree without a node. A new entry may need one: it may look like a node's address. */
static int dup_single(const struct dup *d, struct maple_tree *to, void *entry)
{
	MA_STATE(mas, to, 0, 0);
	int error = d->ops->copy(&entry, 1, d->arg);

	if (error)
		return error;
	if (!entry || is_reserved(entry))
		return -EINVAL;
	error = mas_store_gfp(&mas, entry, d->gfp);
	if (error)
		d->ops->undo(&entry, 1, d->arg);
	return error;
}

static int dup_tree(const struct dup *d, struct maple_tree *from, struct maple_tree *to)
{
	void *root = from->ma_root;
	int error = 0;

	if (to->ma_root || (from->ma_flags ^ to->ma_flags) & ~MT_FLAGS_ALLOC_WRAPPED)
		return -EINVAL;
	if (is_node(root))
		error = dup_nodes(d, (enode_t)root, &root);
	else if (root && d->ops)
		return dup_single(d, to, root);
	if (error)
		return error;
	to->ma_flags = from->ma_flags;
	to->__ma_unjoined = from->__ma_unjoined;
	store_release(&to->ma_root, root);
	return 0;
}

SHEAF_PUBLIC int __mt_dup(struct maple_tree *from, struct maple_tree *to, gfp_t gfp)
{
	const struct dup d = {NULL, NULL, gfp};

	return dup_tree(&d, from, to);
}

/* The caller's header may be older or newer: members that it lacks are NULL, and members unknown
 * here must be NULL. */
static bool take_ops(struct mt_dup_ops *own, const struct mt_dup_ops *ops, size_t size)
{
	if (!ops || size % sizeof(own->copy))
		return false;
	memset(own, 0, sizeof(*own));
	memcpy(own, ops, size < sizeof(*own) ? size : sizeof(*own));
	for (size_t i = sizeof(*own); i < size; i++)
		if (((const char *)ops)[i])
			return false;
	return own->copy && own->undo;
}

SHEAF_PUBLIC int __mt_dup_sized(struct maple_tree *from, struct maple_tree *to,
				const struct mt_dup_ops *ops, size_t ops_size, void *arg, gfp_t gfp)
{
	struct mt_dup_ops own;
	const struct dup d = {&own, arg, gfp};

	return take_ops(&own, ops, ops_size) ? dup_tree(&d, from, to) : -EINVAL;
}

SHEAF_PUBLIC int mtree_dup(struct maple_tree *from, struct maple_tree *to, gfp_t gfp)
{
	bool internal = !mt_external_lock(from) && !mt_external_lock(to);
	int error;

	if (internal) {
		mtree_lock(to);
		mtree_lock(from);
	}
	error = __mt_dup(from, to, gfp);
	if (internal) {
		mtree_unlock(from);
		mtree_unlock(to);
	}
	return error;
}

SHEAF_PUBLIC void __mt_destroy(struct maple_tree *mt)
{
	void *root = mt->ma_root;
	enode_t e = (enode_t)root;

	store_release(&mt->ma_root, NULL);
	mt->__ma_unjoined = 0;
	mt->ma_flags &= ~MT_FLAGS_ALLOC_WRAPPED;
	if (!is_node(root))
		return;
	if (in_rcu(mt)) {
		subtree_retire(mt, e);
	} else {
		void *node = node_of(e);

		if (level_of(e))
			subtree_free(e, end_of(node) + 1, NULL);
		nodes_free(1, &node);
	}
}

SHEAF_PUBLIC void mtree_destroy(struct maple_tree *mt)
{
	bool internal = !mt_external_lock(mt);

	if (internal)
		mtree_lock(mt);
	__mt_destroy(mt);
	if (internal)
		mtree_unlock(mt);
}
