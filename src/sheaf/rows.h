/* SPDX-License-Identifier: MIT */
/*
 * Where slots come from: areas of os.nr_rows rows of SLOTS_PER_ROW slots, laid out CPU by CPU.
 *
 * The first slot of the first area is never given out: it is the slot of every cache without
 * sheaves, and holds the bootstrap sheaf for ever.
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
/* A slot in every row, each holding the bootstrap sheaf; NULL if there is no memory. */
char *rows_take_slot(void);
/* It must hold the bootstrap sheaf, no cells and no counts again. */
void rows_give_slot(char *slots);
/* The slot that stays empty. */
char *rows_empty_slot(void);

#endif
