/* SPDX-License-Identifier: MIT */
/*
 * Free runs of indices: the longest one below each child of an arange node, for the searches of
 * area.c.
 *
 * The length stored for a leaf may be too large: a store of an entry, which can only make runs
 * shorter, does not look for the longest remaining run. A failed search in a leaf does (area.c),
 * once for all such stores; programs that never search for gaps pay nothing. The length stored for
 * an inner node is always the longest of those stored in it.
 *
 * A run is a maximal sequence of free slots; its length is the sum of theirs. It may begin in one
 * leaf and continue in the next, and further only over leaves without an entry (empty.c). The leaf
 * where the run begins owns all of it: the search for a run looks at each leaf's last free slots
 * together with the next leaf's first ones. The next leaf also counts its own part, and a leaf
 * without an entry what follows it, too, which is never longer than the run.
 *
 *        leaf A                       leaf B
 *     | a |free| b | free | free... | ....free | free | c | ...
 *              A owns |-----------------------------|   B counts  |-----------------|
 *
 * Called with the tree's lock held.
 */
#include "tree.h"

static inline unsigned long longer(unsigned long a, unsigned long b)
{
	return a > b ? a : b;
}

/* Without a branch that depends on the slots' contents; the branch at the end is the loop's. */
unsigned long leaf_gap(const struct maple_node *leaf, unsigned long min, unsigned long max,
		       unsigned long after)
{
	unsigned long longest = 0, from = min; /* where the run begins, if there is one */
	unsigned int end = end_of(leaf);

	for (unsigned int i = 0; i < end; i++) {
		unsigned long next = leaf->range.pivot[i] + 1;

		from = leaf->range.slot[i] ? next : from;
		longest = longer(longest, next - from);
	}
	return leaf->range.slot[end] ? longest : longer(longest, max - from + 1 + after);
}

unsigned long node_gap(const struct maple_node *node)
{
	unsigned long longest = node->arange.gap[0];

	for (unsigned int i = 1; i < ARANGE_SLOTS; i++)
		longest = longer(longest, node->arange.gap[i]);
	return longest;
}

unsigned long free_at_start(const struct maple_tree *mt, enode_t e, unsigned long before)
{
	const struct maple_node *leaf;

	while (level_of(e))
		e = child(e, 0);
	leaf = node_of(e);
	if (leaf->range.slot[0])
		return 0;
	if (unlikely(!end_of(leaf)))
		return free_over(mt, before + 1);
	return leaf->range.pivot[free_first(leaf)] - before;
}

unsigned long free_after(const struct maple_tree *mt, const struct path *path)
{
	unsigned int up = 1;

	while (up <= path->height && path->at[up].offset == end_of(node_of(path->at[up].e)))
		up++;
	if (up > path->height)
		return 0;
	return free_at_start(mt, child(path->at[up].e, path->at[up].offset + 1), path->at[0].max);
}

void gap_set(struct path *path, unsigned int level, unsigned long gap)
{
	for (unsigned int l = level; l <= path->height; l++) {
		const struct step *step = &path->at[l], *above = step + 1;
		unsigned long *kept = &gaps(step->e)[step->offset], old = *kept, upper;

		if (old == gap)
			return;
		*kept = gap;
		if (l == path->height)
			return;
		upper = gaps(above->e)[above->offset];
		if (gap < upper) {
			if (old < upper)
				return;
			gap = node_gap(node_of(step->e));
		}
	}
}

void gap_correct(const struct maple_tree *mt, struct path *path)
{
	const struct step *leaf = &path->at[0];

	gap_set(path, 1, leaf_gap(node_of(leaf->e), leaf->min, leaf->max, free_after(mt, path)));
}

void gap_fix_before(const struct maple_tree *mt, struct path *path)
{
	const struct step *leaf = &path->at[0];
	unsigned long after = 0;
	enode_t next = leaf->e;

	while (path_prev(path, 0) && !slots(leaf->e)[leaf->offset]) {
		if (!after)
			after = free_at_start(mt, next, leaf->max);
		gap_set(path, 1, leaf_gap(node_of(leaf->e), leaf->min, leaf->max, after));
		if (likely(!is_empty_leaf(node_of(leaf->e))))
			return;
		after += leaf->max - leaf->min + 1;
	}
}
