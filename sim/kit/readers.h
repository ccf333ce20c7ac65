/* SPDX-License-Identifier: MIT */
/*
 * Grace periods of the simulator's fibres, which are readers, too.
 *
 * Who is inside a read-side section is one bit each. A grace period that begins now waits for exactly
 * these: whoever leaves clears its bit everywhere. What was retired keeps such a word of its own in the
 * model (model.h), so what the library makes of numbers is checked against what readers really do.
 */
#ifndef SHEAF_SIM_KIT_READERS_H
#define SHEAF_SIM_KIT_READERS_H

#include <stdbool.h>
#include <stdint.h>

#define MOST_FIBRES 64

/* Of this provider, for the process. Before the first run. */
void readers_register(void);
void readers_enter(unsigned int fibre);
void readers_leave(unsigned int fibre);
bool readers_inside(unsigned int fibre);
/* Fibres inside a section now. */
uint64_t readers_now(void);
/* Run the functions whose grace period has passed: what they begin is left. Outside sections. */
void readers_pass(void);
/* Does a function wait to be called? */
bool readers_asked(void);

#endif
