/* SPDX-License-Identifier: MIT */
/*
 * Operations on a tree and its model. Each is independent, so that a list without some of them is
 * still a valid list (shrink.h). The effect of an operation on the tree is compared with the model.
 */
#ifndef TESTS_MAPLE_OPERATIONS_H
#define TESTS_MAPLE_OPERATIONS_H

#include <stdint.h>
#include <stdio.h>

#include "kit/model.h"
#include "kit/random.h"

enum op_kind {
	OP_STORE,
	OP_ERASE,
	OP_INSERT,
	OP_ALLOC,
	OP_CYCLIC,
	OP_GAP,
	OP_LOOK,
	OP_SEARCH,
	OP_MT_FIND,
	OP_ITERATE,
	OP_COPY,
	OP_DESTROY,
	NR_OPS
};

struct op {
	unsigned char kind, how, shape, steps;
	bool with_entry, flag, refused;
	unsigned int a, b; /* cells */
	unsigned long size, index, limit;
};

/* A tree with its model, and options for reports of faults. */
struct run {
	struct maple_tree tree;
	struct model model;
	unsigned long next; /* of mtree_alloc_cyclic() */
	bool tell;	    /* each call as C, to paste */
	bool refuse;	    /* the operation gets no nodes */
	unsigned int step;
};

/* The kind of a run: sizes of ranges in cells; of 100 stores, those with an entry; of 100
 * operations, those that get no nodes. */
struct taste {
	unsigned int span, fill, refuse;
};

void op_make(struct op *op, uint64_t *random, const struct model *m, const struct taste *taste);
/* Prints a line and exits if the tree does not behave like the model. */
void op_do(struct run *r, const struct op *op);
/* Every range and gap, upwards and downwards, and the invariants. */
void check_all(struct run *r);

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s, at step %u\n", __FILE__, __LINE__, #condition, \
				r->step);                                                          \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#endif
