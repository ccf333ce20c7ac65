/* SPDX-License-Identifier: MIT */
/*
 * Where slots come from: areas of os.nr_rows rows of SLOTS_PER_ROW slots, laid out CPU by CPU,
 * after one row of handles. They are mapped in blocks; each block has as many areas as there are
 * already, up to a limit, so that the fixed cost of a block is rare.
 *
 * All slots begin in the same state, closed: nothing may be pushed there, because a slot does not
 * know yet which node's objects are at home. The first slow path of its CPU opens it permanently.
 *
 * A cache has one more slot, which belongs to no CPU and has no shard. Its cells hold a bitmap
 * instead: the rows in use.
 *
 *   no CPU's slot | bits of rows: 23 words | main ...     1 << rows_shift() rows a bit
 *
 * Invariants
 *  ROWS-W1. A closed slot has home_size 0, and a home that is far from every address: whichever of
 *      the two a section sees first while the slot is opened, no object is at home before both are
 *      set.
 *  ROWS-W2. A slot that is open, or that counts sheaves in hand, has its bit set. Bits are never
 *      cleared: a handle's next cache inherits them with its open slots. Since sections put sheaves
 *      into open slots only, and lock no others (SECTION-S5), all other slots hold the bootstrap
 *      sheaf and no counts, are not locked, and are not even read.
 *
 * ROWS-W2 depends on the order. A thread that opens a slot sets the bit first. One that puts a
 * sheaf in, or counts one in hand, sees the slot open, or sets the bit, before it reads stop; a
 * drain sets stop before it reads bits.
 *
 * Locks: none; callers hold OS_RANK_CACHES, except for rows_open_here(). Callers: src/percpu/,
 * src/cache/; src/stats/ to read.
 */
#ifndef SHEAF_PERCPU_ROWS_H
#define SHEAF_PERCPU_ROWS_H

#include <stdbool.h>

#include "os/atomic.h"
#include "os/machine.h"
#include "os/section.h"

/* Size 0, capacity 0: empty for a pop and full for a push. */
extern struct sheaf sheaf_bootstrap;

/* Once per process: map the first ones. Returns false if there is no memory. */
bool rows_init(void);
/* Take a handle for a cache: SHEAF_HANDLE bytes, all zero except a slot's main, with a slot in
 * every row that holds the bootstrap sheaf. Returns NULL if there is no memory. */
void *rows_take(void);
/* Take n of them, next to each other. */
void *rows_take_many(unsigned int n);
/* Its slots must hold the bootstrap sheaf, no cells and no counts. */
void rows_give(void *handle);

static inline struct sheaf *slot_spare(const struct slot *slot)
{
	return (struct sheaf *)(os_load_relaxed(&slot->pair) ^
				(uintptr_t)os_load_relaxed(&slot->main));
}

/* If it is, its bit is set. */
static inline bool rows_is_open(const struct slot *slot)
{
	return os_load_acquire(&slot->home_size) != 0;
}

/* Open the slot that a section would change here: that of the CPU on which we run, or its stand-in
 * while it is locked. Returns false if that is impossible, or if all of them are locked. */
bool rows_open_here(char *handle);

/* Set the bit of a row (ROWS-W2). */
void rows_use(char *handle, unsigned int row);

/* The first row in use from this one on; os.nr_rows if there is none. */
unsigned int rows_from(char *handle, unsigned int row);
#define rows_for_each(handle, row)                                                                 \
	for (unsigned int row = 0; (row = rows_from((handle), row)) < os.nr_rows; row++)

/* The sum of a counted word over every CPU, and over threads without one. */
uint64_t rows_counted(char *handle, unsigned int word);

#endif
