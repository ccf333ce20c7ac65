/* SPDX-License-Identifier: MIT */
/*
 * Memory pressure: the system reports that programs waited for memory (PSI: of this process's
 * control group if that is available, else of the whole system).
 *
 * Locks: none; one thread at a time. errno is preserved. Callers: src/cache/housekeeping.c.
 */
#ifndef SHEAF_OS_PRESSURE_H
#define SHEAF_OS_PRESSURE_H

#include <stdbool.h>

/* The system reports, at most once in a window, that programs waited for so long in it. */
#define OS_PRESSURE_STALL_US  200000
#define OS_PRESSURE_WINDOW_US 2000000 /* users without privileges must take whole multiples of it */

/* Ask the system for reports, unless it sends them already: the program may close all files, or its
 * control group may be removed. False: it sends none. */
bool os_pressure_begin(void);
/* Has it reported any since the last call? Does not wait. */
bool os_pressure_seen(void);
/* In a forked child, which does not get the parent's reports. */
void os_pressure_in_child(void);

#endif
