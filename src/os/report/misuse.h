/* SPDX-License-Identifier: MIT */
/*
 * Misuse: what the program did wrong. Which reports of it are written (os_misuse(): report.h).
 *
 * Reports are counted by kind (the format) and subject (a cache's name, or NULL). report.h says
 * which ones are written; the others are only counted. There are places for some 4000 pairs of the
 * two.
 *
 * Locks: none. Callers: os/report/record.c; src/cache/ at exit.
 */
#ifndef SHEAF_OS_MISUSE_H
#define SHEAF_OS_MISUSE_H

#include <stdint.h>

#include "os/compiler.h"

/* The number of the next report within its kind; 0: it is left out. */
uint32_t os_misuse_count(const char *about, const char *format) OS_COLD;

/* Begin to count anew. */
void os_misuse_forget(void);
/* At exit: report how many reports were left out, if any. */
void os_misuse_left_out(void);

#endif
