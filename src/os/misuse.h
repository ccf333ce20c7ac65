/* SPDX-License-Identifier: MIT */
/*
 * Misuse: what the program did wrong. How many reports of it are written, and the line of each.
 *
 * Reports are counted by kind (the format) and subject (a cache's name, or NULL). report.h says
 * which ones are written; the others are only counted. There are places for some 4000 pairs of the
 * two.
 *
 * Locks: none. Callers: os/report.c, os/long_report.c; src/cache/ at exit.
 */
#ifndef SHEAF_OS_MISUSE_H
#define SHEAF_OS_MISUSE_H

#include <stdarg.h>
#include <stdint.h>

#include "os/line.h"

/* The number of the next report within its kind; 0: it is left out. */
uint32_t os_misuse_count(const char *about, const char *format) __attribute__((cold));
/* Make the line of the report with this number, with the stack of this call. */
void os_misuse_make(struct os_line *line, uint32_t n, const char *format, va_list arguments)
	__attribute__((format(printf, 3, 0)));

/* Begin to count anew. */
void os_misuse_forget(void);
/* At exit: report how many reports were left out, if any. */
void os_misuse_left_out(void);

#endif
