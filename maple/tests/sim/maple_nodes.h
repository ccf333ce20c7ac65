/* SPDX-License-Identifier: MIT */
/*
 * The maple tree's nodes in the simulator: a plain array replaces libsheaf. No node is used twice
 * in a run, so that an access to a freed one is found immediately.
 *
 *     unused -> live -> retired (waits for the readers that were inside then) -> freed
 *
 * A freed node is poisoned, and a load or store of one of its words fails (maple_words.h). Only
 * kmem_cache_free_rcu() is a step of the simulator.
 */
#ifndef SHEAF_TESTS_SIM_MAPLE_NODES_H
#define SHEAF_TESTS_SIM_MAPLE_NODES_H

#include <stdbool.h>

struct maple_tree;

#define WRITER 0u /* the fibre that stores; all others read */

/* Faults that can be planted on purpose: a test that misses them would find nothing. */
enum plant {
	PLANT_NONE,
	PLANT_NO_DEAD_MARK,  /* a replaced node is not marked dead */
	PLANT_NO_GRACE,	     /* it is freed immediately */
	PLANT_RETIRE_FIRST,  /* it is freed before its successor is published */
	PLANT_PUBLISH_FIRST, /* the successor is published before it is filled */
	PLANT_PIVOTS_LAST,   /* pivots of a change in place are stored last, in the wrong order */
	PLANT_NO_MARK,	     /* a leaf that is cut gets no marks */
	PLANT_NO_MOVING,     /* META_MOVING is never set */
	NR_PLANTS
};
extern enum plant planted;
extern bool nodes_refused; /* there are no nodes */

/* Make all nodes but the tree's unused; save this state; restore it. */
void nodes_begin(void);
void nodes_save(const struct maple_tree *mt);
void nodes_restore(struct maple_tree *mt);
/*
 * Between nodes_learn(false) and nodes_learned(), stores mark the words that they change.
 * Afterwards only loads of marked words are steps: a preemption before another load has the same
 * effect as one before the next marked word. With nodes_learn(true), all loads are steps.
 */
void nodes_learn(bool all);
void nodes_learned(void);
/* How many nodes are live or retired. */
unsigned int nodes_left(void);

/* For the fibre that runs. */
void fibre_begins(unsigned int fibre);
void reader_enters(void);
void reader_leaves(void);
/* The writer's store is complete: delayed stores of planted faults happen now. */
void store_ends(void);

#endif
