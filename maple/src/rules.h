/* SPDX-License-Identifier: MIT */
/*
 * When nodes are split and joined, how many nodes a store requests, and how.
 *
 * MAPLE_KERNEL_RULES: the rules of the Linux kernel, only for measurements of the cache below the
 * tree, which must get the same requests. In the kernel a leaf may not end with NULL, so erasing
 * its last range also rebuilds the next leaf; a leaf is joined with a neighbour below three
 * eighths; appends in place happen only in trees without readers; the number of nodes requested by
 * a rebuilding store is an upper bound (plan.c); two nodes or more come as a prefilled sheaf.
 */
#ifndef MAPLE_RULES_H
#define MAPLE_RULES_H

#ifdef MAPLE_KERNEL_RULES
#define KERNEL_RULES	 1
#define LEAF_FEW	 7u
#define ARANGE_FEW	 5u
#define JOIN_ROOM(slots) (2 * (slots))
#define SINGLY		 1u
#else
#define KERNEL_RULES	 0
/* A node with fewer slots than these joins a neighbour, if both together fill no more than
 * JOIN_ROOM. */
#define LEAF_FEW	 4u
#define ARANGE_FEW	 3u
#define JOIN_ROOM(slots) ((slots)*3 / 4)
/* Up to this many nodes are allocated one by one: that costs less than a sheaf. */
#define SINGLY		 4u
#endif

#endif
