/* SPDX-License-Identifier: MIT */
/* The tree that the simulator's fibres share: how it begins, and the stores of the writer. */
#ifndef SHEAF_TESTS_SIM_MAPLE_TREES_H
#define SHEAF_TESTS_SIM_MAPLE_TREES_H

#include "../../src/store_type.h"
#include "maple_readers.h"

#define NR_SHAPES     16
#define REFUSED_SHAPE 13 /* the first of the trees that have leaves without an entry */

struct store_call {
	unsigned int first, last; /* cells */
	void *entry;
	bool refused; /* it gets no nodes */
};

static inline struct store_call a_store(unsigned int first, unsigned int last, void *entry)
{
	return (struct store_call){first, last, entry, false};
}

extern struct maple_tree tree;
extern struct store_call stores[MOST_STORES]; /* of the writer, one after the other */
extern unsigned int nr_stores;

static inline unsigned int least(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

/* A tree, and history.content[0]; restart() makes the same tree again. */
void make_tree(unsigned int shape, unsigned int flags);
/* Like tree_begin(), but with ranges of one index each, without gaps, from 0 on. */
void make_dense(unsigned int ranges);
void restart(void);
/* A random store, of one of many kinds, into this content; the number is encoded in its entry. */
struct store_call propose(const struct model *m, unsigned long number);
/* Compute content[n + 1] from content[n] and the store. */
void change_content(unsigned int n, const struct store_call *call);
/* Make all stores in a fresh copy of the tree, without readers: checks the result, and that no node
 * is lost. Returns the type of the last store. */
enum store_type try_stores(void);
/* The writer's fibre: makes each of the stores. */
void write_all(void);
/* Check that the tree has this content, and that nothing is left when it is destroyed. */
void end_tree(const struct model *m);

#endif
