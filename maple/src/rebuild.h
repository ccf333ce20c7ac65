/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files of stores that change several nodes: rebuild_plan.c decides and counts,
 * items.c makes the lists that fill new nodes, rebuild.c fills and publishes the nodes.
 */
#ifndef MAPLE_REBUILD_H
#define MAPLE_REBUILD_H

#include "rules.h"
#include "tree.h"

/* The new nodes of a level, which replace the old ones in the level above. */
#define MAX_BUILT 8
struct built {
	unsigned int n;
	unsigned long max[MAX_BUILT];
	void *slot[MAX_BUILT];
	unsigned long gap[MAX_BUILT];
};

/* items.c: fill a new node with n items from `start` on. */
enode_t make_node(struct maple_node *node, const struct items *items, unsigned int start,
		  unsigned int n, unsigned int level, bool arange);
/* Make the list of the state's leaf alone, or of the leaves, in st->items, without neighbouring
 * NULLs; and the list of level l, with the nodes built below. */
void gather_leaf(struct store *st);
/* The list of the leaf's slots from this one on, with what is stored there. */
void gather_upper(struct store *st, unsigned int from);
/* Add the slots of another leaf, which goes up to max. */
void gather_more(struct store *st, const struct maple_node *leaf, unsigned long max);
void gather_leaves(struct store *st);
void gather_children(struct store *st, unsigned int l, const struct built *built);

static inline unsigned int slots_at(const struct store *st, unsigned int level)
{
	return level && st->mas->tree->ma_flags & MT_FLAGS_ALLOC_RANGE ? ARANGE_SLOTS : LEAF_SLOTS;
}

#endif
