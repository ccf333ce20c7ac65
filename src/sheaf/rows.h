/* SPDX-License-Identifier: MIT */
/*
 * Where slots come from: areas of os.nr_rows rows of SLOTS_PER_ROW slots, laid out CPU by CPU,
 * behind one row of handles.
 *
 * Locks: none; callers hold OS_RANK_CACHES. Callers: src/sheaf/ only.
 */
#ifndef SHEAF_SHEAF_ROWS_H
#define SHEAF_SHEAF_ROWS_H

#include <stdbool.h>

#include "os/section.h"

/* Size 0, capacity 0: looks empty to a pop and full to a push. */
extern struct sheaf sheaf_bootstrap;

bool rows_init(void);
/* A handle of 1 << SLOT_SHIFT zero bytes, with a slot in every row that holds the bootstrap sheaf;
 * NULL if there is no memory. */
void *rows_take(void);
/* Its slots must hold the bootstrap sheaf, no cells and no counts again. */
void rows_give(void *handle);

#endif
