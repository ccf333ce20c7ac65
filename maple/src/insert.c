/* SPDX-License-Identifier: MIT */
/*
 * A store that adds one or two slots to a leaf beside readers, without a new leaf: the slots behind
 * them move up, beginning at the end.
 *
 * A slot that covers no index is a hole: no search ends there. Holes start behind the end and move
 * down to where they are needed. Moving a hole below a slot takes two stores that no lookup depends
 * on: the slot's entry is copied into the hole, then the slot's pivot moves to where the slot
 * begins.
 *
 *                         a  |   b   | hole
 *     the entry           a  |   b   |  b      still a hole
 *     the pivot           a  | hole  |  b
 *
 * Then the new entry is stored into the hole, and one pivot makes it visible. If free slots are
 * divided, their pivots move first, and the slot makes it visible.
 *
 * Invariants:
 *  1. After each store, the search finds the same entry for each index as before; one of the stores
 *     makes the new entry visible. The range of a slot that covers an index is right, too.
 *  2. The leaf is stamped before each word that moves, or two words of neighbouring holes. A reader
 *     accepts what it found only if the stamp is the same before and after: then all that it has
 *     read is from before the change of that word, or from after it. (A hole's entry is never
 *     found, but a gap is as long as its neighbours are NULL, and a hole may be next to it.)
 *  3. While there may be holes, meta has META_MOVING. A walk from the root works, but no state
 *     continues in the leaf, where the next slot could be a hole. Nobody waits for the writer.
 *
 * Called with the tree's lock held, by leaf.c.
 */
#include "tree.h"

/* The leaf's next stamp. It is kept here, because loading it again would wait for its store. */
static inline uint64_t stamp(struct maple_node *leaf, uint64_t meta)
{
	store_release(&leaf->meta, meta);
	return meta + META_STEP;
}

/* Make n holes, of which slot `at` is the first, in a leaf whose last slot is `end`. Returns the
 * next stamp. */
static inline __attribute__((always_inline)) uint64_t open_holes(struct maple_node *leaf,
								 unsigned int at, unsigned int n,
								 unsigned int end,
								 const struct ma_state *mas)
{
	uint64_t meta = ((leaf->meta & ~META_END) | META_MOVING) + META_STEP + end + n;
	unsigned long *pivot = leaf->range.pivot;
	void **slot = leaf->range.slot;

	for (unsigned int i = 0; i < n; i++)
		store_release(&pivot[end + i], mas->max);
	meta = stamp(leaf, meta);
	for (unsigned int hole = end + 1; hole > at; hole--) {
		unsigned long before = slot_min(leaf, hole - 1, mas->min) - 1;
		void *entry = slot[hole - 1];

		store_release(&slot[hole], entry);
		if (n > 1)
			store_release(&slot[hole + 1], entry);
		meta = stamp(leaf, meta);
		store_release(&pivot[hole - 1], before);
		if (n > 1)
			store_release(&pivot[hole], before);
		meta = stamp(leaf, meta);
	}
	return meta;
}

/* At one end of an entry's slot: the other part of it stays. */
static void insert_beside(struct store *st, struct maple_node *leaf)
{
	unsigned int first = st->first, into = first + st->left;
	uint64_t meta = open_holes(leaf, into, 1, st->end - 1, st->mas);

	store_release(&leaf->range.slot[into], st->entry);
	meta = stamp(leaf, meta);
	store_release(&leaf->range.pivot[first], st->left ? st->index - 1 : st->last);
	stamp(leaf, meta - META_MOVING);
}

/* Store into a free slot, which becomes n + 1 slots. */
static inline __attribute__((always_inline)) void
insert_into(struct store *st, struct maple_node *leaf, unsigned int n)
{
	unsigned int first = st->first, into = first + st->left;
	uint64_t meta = open_holes(leaf, first + 1, n, st->end - n, st->mas);

	for (unsigned int i = 1; i <= n; i++)
		store_release(&leaf->range.slot[first + i], NULL);
	meta = stamp(leaf, meta);
	if (st->right)
		store_release(&leaf->range.pivot[into], st->last);
	if (st->left)
		store_release(&leaf->range.pivot[first], st->index - 1);
	stamp(leaf, meta - META_MOVING);
	store_release(&leaf->range.slot[into], st->entry);
}

void leaf_insert(struct store *st)
{
	struct maple_node *leaf = st->mas->node;

	if (leaf->range.slot[st->first])
		insert_beside(st, leaf);
	else if (st->left && st->right)
		insert_into(st, leaf, 2);
	else
		insert_into(st, leaf, 1);
}
