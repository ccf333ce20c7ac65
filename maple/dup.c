/* SPDX-License-Identifier: MIT */
/*
 * A whole tree at once: copied, with all nodes below one node allocated in bulk, and destroyed.
 *
 * Called with the tree's lock held (the copy's, too).
 */
#include <errno.h>
#include <string.h>

#include "tree.h"

void subtree_retire(const struct maple_tree *mt, enode_t e)
{
	unsigned int end = end_of(node_of(e));

	for (unsigned int i = 0; level_of(e) && i <= end; i++)
		subtree_retire(mt, (enode_t)slots(e)[i]);
	node_retire(mt, node_of(e));
}

/* Free what no reader can be in, the nodes below one node in bulk. `made` children are ours. */
static void subtree_free(enode_t e, unsigned int made)
{
	struct maple_node *nodes[LEAF_SLOTS];

	for (unsigned int i = 0; i < made; i++) {
		enode_t below = (enode_t)slots(e)[i];

		nodes[i] = node_of(below);
		if (level_of(below))
			subtree_free(below, end_of(nodes[i]) + 1);
	}
	nodes_free(made, nodes);
}

/*
 * `copy` has been given the content of a node; give it children of its own. If that fails, none of
 * them and none below them are left.
 */
static int dup_children(enode_t copy, gfp_t gfp)
{
	struct maple_node *nodes[LEAF_SLOTS];
	unsigned int n = end_of(node_of(copy)) + 1;
	void **slot = slots(copy);

	if (nodes_alloc(n, nodes, gfp))
		return -ENOMEM;
	for (unsigned int i = 0; i < n; i++) {
		enode_t old = (enode_t)slot[i];

		memcpy(nodes[i], node_of(old), NODE_BYTES);
		slot[i] = (void *)((enode_t)nodes[i] | (old & (NODE_BYTES - 1)));
	}
	for (unsigned int i = 0; level_of(copy) > 1 && i < n; i++)
		if (dup_children((enode_t)slot[i], gfp)) {
			while (i-- > 0)
				subtree_free((enode_t)slot[i], end_of(nodes[i]) + 1);
			nodes_free(n, nodes);
			return -ENOMEM;
		}
	return 0;
}

SHEAF_PUBLIC int __mt_dup(struct maple_tree *from, struct maple_tree *to, gfp_t gfp)
{
	struct maple_node *node;
	void *root = from->ma_root;
	enode_t copy;

	if (to->ma_root || (from->ma_flags ^ to->ma_flags) & ~MT_FLAGS_ALLOC_WRAPPED)
		return -EINVAL;
	if (is_node(root)) {
		if (nodes_alloc(1, &node, gfp))
			return -ENOMEM;
		memcpy(node, node_of((enode_t)root), NODE_BYTES);
		copy = (enode_t)node | ((enode_t)root & (NODE_BYTES - 1));
		if (level_of(copy) && dup_children(copy, gfp)) {
			nodes_free(1, &node);
			return -ENOMEM;
		}
		root = (void *)copy;
	}
	to->ma_flags = from->ma_flags;
	store_release(&to->ma_root, root);
	return 0;
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
	mt->ma_flags &= ~MT_FLAGS_ALLOC_WRAPPED;
	if (!is_node(root))
		return;
	if (mt->ma_flags & MT_FLAGS_USE_RCU) {
		subtree_retire(mt, e);
	} else {
		struct maple_node *node = node_of(e);

		if (level_of(e))
			subtree_free(e, end_of(node) + 1);
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
