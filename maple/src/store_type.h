/* SPDX-License-Identifier: MIT */
/* The kind of a store: `store_type` of its state; see docs/maple-tree.md. */
#ifndef MAPLE_STORE_TYPE_H
#define MAPLE_STORE_TYPE_H

enum store_type {
	wr_invalid,
	wr_none,	   /* nothing to do: the tree has this entry there already */
	wr_new_root,	   /* one range from 0 to ULONG_MAX */
	wr_store_root,	   /* the tree had no node */
	wr_exact_fit,	   /* one slot */
	wr_slot_store,	   /* borders of ranges move, their number stays: in place */
	wr_append,	   /* into the free end of the last slot, in place */
	wr_run_store,	   /* into free slots that are neighbours, in place */
	wr_insert,	   /* one or two slots more, in place beside readers */
	wr_node_store,	   /* one leaf */
	wr_rebalance,	   /* a leaf with too few slots joins a neighbour */
	wr_split_store,	   /* a leaf with too many slots becomes two */
	wr_spanning_store, /* more than one leaf is covered */
};

#endif
