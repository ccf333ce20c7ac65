/* SPDX-License-Identifier: MIT */
/*
 * Where slots come from: areas of os.nr_rows rows of SLOTS_PER_ROW slots, laid out CPU by CPU,
 * behind one row of handles. They are mapped in blocks, each of as many areas as there are already, up to
 * a limit; what a block costs that does not depend on its areas is then rare.
 *
 * Slots of all CPUs are made alike, and closed: nothing may be pushed there, since a slot does not know
 * yet which node's objects are at home. The first slow path of its CPU opens it, for good.
 *
 * Invariants
 *  W1. A closed slot has home_size 0, and a home to which no address is near: whichever of the two a
 *      section sees first while the slot is opened, no object is at home before both are there.
 *
 * Locks: none; callers hold OS_RANK_CACHES, but for rows_open_here(). Callers: src/percpu/, src/cache/; src/stats/ to
 * read.
 */
#ifndef SHEAF_PERCPU_ROWS_H
#define SHEAF_PERCPU_ROWS_H

#include <stdbool.h>

#include "os/atomic.h"
#include "os/machine.h"
#include "os/section.h"

/* Size 0, capacity 0: looks empty to a pop and full to a push. */
extern struct sheaf sheaf_bootstrap;

/* Once for the process: map the first ones. False if there is no memory. */
bool rows_init(void);
/* A handle for a cache: SHEAF_HANDLE bytes, zero but for a slot's main, with a slot in every row that holds
 * the bootstrap sheaf. NULL if there is no memory. */
void *rows_take(void);
/* Its slots must hold the bootstrap sheaf, no cells and no counts again. */
void rows_give(void *handle);

static inline bool rows_is_open(const struct slot *slot)
{
	return os_load_relaxed(&slot->home_size) != 0;
}

/* Open what a section would change here: the slot of the CPU we are on, or the one that stands in for it
 * while it is locked. False: that cannot be, or all of them are locked. */
bool rows_open_here(char *handle);

/* The first row that ever had an open slot, from this one on; os.nr_rows if there is none. */
unsigned int rows_opened_from(unsigned int row);

/* The sum of a counted word over every CPU, and over threads that have none. */
uint64_t rows_counted(char *handle, unsigned int word);

#endif
