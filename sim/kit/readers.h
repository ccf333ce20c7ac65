/* SPDX-License-Identifier: MIT */
/*
 * Grace periods for the simulator's fibres, which are also the readers.
 *
 * Each fibre inside a read-side section has a bit. A grace period that begins now waits for exactly
 * these fibres: a fibre that leaves clears its bit everywhere. The model (model.h) stores such a
 * word for each retired object, so that the library's numbers are checked against the readers' real
 * sections.
 */
#ifndef SHEAF_SIM_KIT_READERS_H
#define SHEAF_SIM_KIT_READERS_H

#include <stdbool.h>
#include <stdint.h>

#define MOST_FIBRES 64

/* Register this provider for the process. Before the first run. */
void readers_register(void);
void readers_enter(unsigned int fibre);
void readers_leave(unsigned int fibre);
/* Fibres that are inside a section now. */
uint64_t readers_now(void);
/*
 * Call the functions whose grace period has passed, but not those that they add. Outside sections.
 */
void readers_pass(void);
/* True if a function waits to be called. */
bool readers_asked(void);

#endif
