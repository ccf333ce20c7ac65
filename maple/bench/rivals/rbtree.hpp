/* SPDX-License-Identifier: MIT */
/*
 * A red-black tree of nodes that lie in the user's objects, each with the free bytes below its
 * range and the largest such gap of its subtree, so that gaps can be searched: the former structure
 * of address spaces.
 *
 *            [ 30-39, gap 20, most 20 ]
 *            /                        \
 *   [ 0-9, gap 0, most 0 ]    [ 50-59, gap 10, most 10 ]
 *
 * Invariants
 *  1. A red node has no red child; every path down passes the same number of black nodes; the root
 *     is black.
 *  2. gap is start - (end of the range before) - 1, or start - FLOOR for the lowest.
 *  3. most is the largest gap of the node and all below it.
 *
 * Nodes are made at the beginning, one per place, in the order of their addresses.
 */
#ifndef BENCH_MAPLE_RBTREE_HPP
#define BENCH_MAPLE_RBTREE_HPP

#include "common.hpp"
#include "structure.hpp"

class rbtree : public structure
{
      public:
	static constexpr bool searches = true;

	explicit rbtree(size_t places = 0) : nodes_(places)
	{
	}

	void *load(unsigned long index) const
	{
		const node *const found = find(index);

		return found ? found->entry : nullptr;
	}

	void store(const place &at)
	{
		node *const fresh = &nodes_[number_of(at.entry)];
		node *parent = nullptr, *before = nullptr, *after = nullptr;
		node **link = &root_;

		while (*link) {
			parent = *link;
			if (at.first < parent->first) {
				after = parent;
				link = &parent->child[0];
			} else {
				before = parent;
				link = &parent->child[1];
			}
		}
		const unsigned long gap = at.first - (before ? before->last + 1 : FLOOR);
		*fresh = {parent, {nullptr, nullptr}, true, at.first, at.last, gap, gap, at.entry};
		*link = fresh;
		if (after)
			after->gap = after->first - at.last - 1;
		else
			highest_ = fresh;
		raise(after);
		raise(parent);
		balance_stored(fresh);
	}

	void map(const place &at)
	{
		store(at);
	}

	void *unmap(unsigned long index)
	{
		node *const found = find(index);

		if (!found)
			return nullptr;
		node *const after = next_of(found);
		if (after)
			after->gap += found->gap + (found->last - found->first + 1);
		else
			highest_ = before_of(found);
		remove(found, after);
		return found->entry;
	}

	template <class F> void each(F &&visit) const
	{
		const node *one = root_;

		while (one && one->child[0])
			one = one->child[0];
		for (; one; one = next_of(const_cast<node *>(one)))
			visit(one->first, one->last, one->entry);
	}

	unsigned long gap_from_top(unsigned long size) const
	{
		const node *at = root_;

		if (TOP + 1 - (highest_ ? highest_->last + 1 : FLOOR) >= size)
			return TOP + 1 - size;
		if (!at || at->most < size)
			return 0;
		for (;;) {
			if (at->child[1] && at->child[1]->most >= size)
				at = at->child[1];
			else if (at->gap >= size)
				return at->first - size;
			else
				at = at->child[0];
		}
	}

	void clear()
	{
		root_ = highest_ = nullptr;
	}

      private:
	struct node {
		node *parent, *child[2];
		bool red;
		unsigned long first, last, gap, most;
		void *entry;
	};

	node *find(unsigned long index) const
	{
		node *at = root_;

		while (at && (index < at->first || index > at->last))
			at = at->child[index > at->last];
		return at;
	}

	static node *neighbour(node *at, int side)
	{
		if (at->child[side]) {
			at = at->child[side];
			while (at->child[!side])
				at = at->child[!side];
			return at;
		}
		while (at->parent && at == at->parent->child[side])
			at = at->parent;
		return at->parent;
	}

	static node *next_of(node *at)
	{
		return neighbour(at, 1);
	}

	static node *before_of(node *at)
	{
		return neighbour(at, 0);
	}

	static bool is_red(const node *at)
	{
		return at && at->red;
	}

	static unsigned long most_of(const node *at)
	{
		unsigned long most = at->gap;

		for (const node *child : at->child)
			if (child && child->most > most)
				most = child->most;
		return most;
	}

	/* Update `most` from a node up, as long as it changes. */
	static void raise(node *at)
	{
		for (; at; at = at->parent) {
			const unsigned long most = most_of(at);

			if (most == at->most)
				break;
			at->most = most;
		}
	}

	void replace_child(node *parent, node *old, node *fresh)
	{
		if (!parent)
			root_ = fresh;
		else
			parent->child[old == parent->child[1]] = fresh;
	}

	/* The node's child on the other side becomes its parent. */
	void rotate(node *at, int side)
	{
		node *const up = at->child[!side];

		at->child[!side] = up->child[side];
		if (up->child[side])
			up->child[side]->parent = at;
		up->parent = at->parent;
		replace_child(at->parent, at, up);
		up->child[side] = at;
		at->parent = up;
		up->most = at->most;
		at->most = most_of(at);
	}

	void balance_stored(node *at)
	{
		while (is_red(at->parent)) {
			node *const above = at->parent->parent;
			const int side = at->parent == above->child[1];
			node *const uncle = above->child[!side];

			if (is_red(uncle)) {
				at->parent->red = uncle->red = false;
				above->red = true;
				at = above;
				continue;
			}
			if (at == at->parent->child[!side]) {
				at = at->parent;
				rotate(at, side);
			}
			at->parent->red = false;
			above->red = true;
			rotate(above, !side);
		}
		root_->red = false;
	}

	/* The gap of the node after it has already grown. */
	void remove(node *gone, node *after)
	{
		node *moved = gone, *child, *parent;

		if (gone->child[0] && gone->child[1])
			moved = next_of(gone);
		child = moved->child[moved->child[0] == nullptr];
		parent = moved->parent;
		const bool red = moved->red;
		if (child)
			child->parent = parent;
		replace_child(parent, moved, child);
		if (moved != gone) {
			if (parent == gone)
				parent = moved;
			take_place(moved, gone);
		}
		raise(parent);
		if (moved != gone)
			raise(moved);
		raise(after);
		if (!red)
			balance_removed(child, parent);
	}

	void take_place(node *moved, node *gone)
	{
		moved->parent = gone->parent;
		moved->child[0] = gone->child[0];
		moved->child[1] = gone->child[1];
		moved->red = gone->red;
		moved->most = gone->most; /* the values above were computed from it */
		replace_child(gone->parent, gone, moved);
		for (node *child : moved->child)
			if (child)
				child->parent = moved;
	}

	/* All paths through `at`, which may be NULL, have one black node too few. */
	void balance_removed(node *at, node *parent)
	{
		while (at != root_ && !is_red(at)) {
			const int side = at == parent->child[1] && at != parent->child[0];
			node *other = parent->child[!side];

			if (is_red(other)) {
				other->red = false;
				parent->red = true;
				rotate(parent, side);
				other = parent->child[!side];
			}
			if (!is_red(other->child[0]) && !is_red(other->child[1])) {
				other->red = true;
				at = parent;
				parent = at->parent;
				continue;
			}
			if (!is_red(other->child[!side])) {
				other->child[side]->red = false;
				other->red = true;
				rotate(other, !side);
				other = parent->child[!side];
			}
			other->red = parent->red;
			parent->red = other->child[!side]->red = false;
			rotate(parent, side);
			at = root_;
		}
		if (at)
			at->red = false;
	}

	std::vector<node> nodes_;
	node *root_ = nullptr, *highest_ = nullptr;
};

#endif
