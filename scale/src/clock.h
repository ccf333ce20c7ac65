/* SPDX-License-Identifier: MIT */
/*
 * Which task runs next: a clock for each task, in picoseconds, and the earliest of them.
 *
 * A tournament: each task is a leaf, each node above names the earlier one of the two below it, the
 * lower number if they are equal. Callers: scale/src/.
 */
#ifndef SHEAF_SCALE_CLOCK_H
#define SHEAF_SCALE_CLOCK_H

#include <stdint.h>

#define CLOCK_TASKS 4096       /* at most */
#define CLOCK_NEVER UINT64_MAX /* the task waits for another one */

/* Clocks of n tasks, all at 0. */
void clock_start(unsigned int n);
/* O(log n) */
void clock_set(unsigned int task, uint64_t at);
uint64_t clock_of(unsigned int task);
/* The earliest task. */
unsigned int clock_first(void);

#endif
