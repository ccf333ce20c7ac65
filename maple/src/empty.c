/* SPDX-License-Identifier: MIT */
/*
 * Leaves without an entry: what an erase that was refused nodes leaves behind.
 *
 * Before a leaf has few entries or none, it joins a neighbour, which takes new nodes. If there are
 * none, the erase stores NULL into the slot, and the leaf stays as it is; without any entry it
 * becomes one free slot. So such an erase makes no tree larger. From then on the tree is
 * `__ma_unjoined`, until it has no node: a store to ranges of a leaf with few entries joins the
 * leaf, whether or not it erases (plan.c), and each rebuild takes in the empty leaves on both sides
 * of its own, as if these covered their indices:
 *
 *     before       [ a b ] [ - ] [ - ] [ c - ] [ - ] [ d e ... ]     c is erased, or x stored
 *     take_empty()         |<---- empty  lo, hi  empty ->|
 *     then         [ a b - x - ] [ d e ... ]
 *
 * So the leaves left over are no more than the erases that were refused since, and they are no
 * hindrance: each costs a search that goes over it one step down the tree.
 *
 * Called with the tree's lock held.
 */
#include "tree.h"

/*
 * Readers may search the leaf meanwhile. They find NULL in any slot; those that need its range find
 * the end in meta first, and no pivot that counts.
 */
void leaf_emptied(const struct ma_state *mas)
{
	struct maple_node *leaf = mas->node;
	uint64_t meta = leaf->meta & ~META_END;

	if (~null_slots(leaf) & ((2u << end_of(leaf)) - 1))
		return;
	store_release(&leaf->meta, meta + META_STEP);
	for (unsigned int i = 0; i < LEAF_SLOTS - 1; i++)
		store_release(&leaf->range.pivot[i], meta & META_CUT ? mas->max : ULONG_MAX);
}

unsigned long free_over(const struct maple_tree *mt, unsigned long index)
{
	const struct maple_node *leaf;
	struct path path;

	path_walk(&path, mt, index);
	do {
		if (!path_next(&path, 0))
			return ULONG_MAX - index + 1;
		leaf = node_of(path.at[0].e);
	} while (is_empty_leaf(leaf));
	return (leaf->range.slot[0] ? path.at[0].min : leaf->range.pivot[free_first(leaf)] + 1) -
	       index;
}

static void follow_above(struct path *to, const struct path *way)
{
	for (unsigned int up = 1; up <= way->height; up++)
		to->at[up] = way->at[up];
}

void take_empty(struct store *st)
{
	struct step *lo = &st->lo.at[0], *hi = &st->hi.at[0];
	unsigned long min = lo->min, max = hi->max;
	struct path way;

	path_copy(&way, &st->lo);
	while (path_prev(&way, 0) && is_empty_leaf(node_of(way.at[0].e))) {
		follow_above(&st->lo, &way);
		lo->min = way.at[0].min;
	}
	path_copy(&way, &st->hi);
	while (path_next(&way, 0) && is_empty_leaf(node_of(way.at[0].e))) {
		follow_above(&st->hi, &way);
		hi->max = way.at[0].max;
	}
	st->empty_before = min - lo->min;
	st->empty_after = hi->max - max;
}
