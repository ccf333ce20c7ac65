/* SPDX-License-Identifier: MIT */
/*
 * The maple tree's nodes in the simulator: a plain array replaces libsheaf. No node is used twice
 * in a run, so that an access to a freed one is found at once.
 *
 *     unused -> live -> retired (waits for the readers that were inside then) -> freed
 *
 * A freed node is poisoned, and a load or store of one of its words fails (maple_words.h). Nothing
 * here is a step of the simulator, but kmem_cache_free_rcu().
 */
#ifndef SHEAF_TESTS_SIM_MAPLE_NODES_H
#define SHEAF_TESTS_SIM_MAPLE_NODES_H

#include <stdbool.h>

struct maple_tree;

#define WRITER 0u /* the fibre that stores; all others read */

/* Faults that can be planted on purpose: a test that does not find them would find nothing. */
enum plant {
	PLANT_NONE,
	PLANT_NO_DEAD_MARK,  /* a replaced node is not marked dead */
	PLANT_NO_GRACE,	     /* it is freed at once */
	PLANT_RETIRE_FIRST,  /* it is freed before its successor is published */
	PLANT_PUBLISH_FIRST, /* the successor is published before it is filled */
	PLANT_PIVOTS_LAST,   /* pivots of a change in place are stored last, in the wrong order */
	PLANT_NO_MARK,	     /* a leaf that is cut gets no marks */
	PLANT_NO_MOVING,     /* META_MOVING is never set */
	NR_PLANTS
};
extern enum plant planted;

/* No node but those of the tree; keep this state; go back to it. */
void nodes_begin(void);
void nodes_save(const struct maple_tree *mt);
void nodes_restore(struct maple_tree *mt);
/*
 * A load is a step only if the word is one that a store changed since nodes_learn(false), till
 * nodes_learned(): before any other, being put aside is the same as before the next of these. Or
 * all.
 */
void nodes_learn(bool all);
void nodes_learned(void);
/* How many are live or retired. */
unsigned int nodes_left(void);

/* Of the fibre that runs. */
void fibre_begins(unsigned int fibre);
void reader_enters(void);
void reader_leaves(void);
/* The writer's store is done: planted faults end, too. */
void store_ends(void);

#endif
