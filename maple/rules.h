/* SPDX-License-Identifier: MIT */
/*
 * When nodes are split and joined, and how many nodes a store asks for.
 *
 * MAPLE_KERNEL_RULES: as the Linux kernel does it. Only for measurements of the cache below the tree,
 * which is to get the same requests: the kernel's leaf may not end with NULL, so that freeing its last
 * range rebuilds the next leaf, too; it is joined with a neighbour below three eighths; appending in
 * place is for trees without readers; and what a rebuilding store asks for is a bound (plan.c).
 */
#ifndef MAPLE_RULES_H
#define MAPLE_RULES_H

#ifdef MAPLE_KERNEL_RULES
#define KERNEL_RULES	 1
#define LEAF_FEW	 7u
#define ARANGE_FEW	 5u
#define JOIN_ROOM(slots) (2 * (slots))
#else
#define KERNEL_RULES	 0
/* Fewer slots than these, and a neighbour is taken in, if both fill no more than this. */
#define LEAF_FEW	 4u
#define ARANGE_FEW	 3u
#define JOIN_ROOM(slots) ((slots)*3 / 4)
#endif

#endif
