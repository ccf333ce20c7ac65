/* SPDX-License-Identifier: MIT */
/*
 * Reports of many lines, for misuse that needs evidence: which bytes, who allocated, who freed.
 *
 * Such a report is misuse as os/report.h describes it: it is limited by kind and cache, and
 * panic_on_warn ends the program after it. It is made in one of a few places in memory that is
 * there from the beginning, without a lock or a wait, so that it may be made anywhere; and it is
 * written where kept lines are. A piece that is written at once ends with a line and is shorter
 * than PIPE_BUF: lines of others come between its lines, never into them.
 *
 * Invariants
 *  G1. A place is free, claimed by the thread that fills or writes it, or ready. Only one thread
 *      claims a ready one.
 *  G2. Each part of a ready place is written once, even if another thread continues.
 *
 * Callers: src/debug/; os/report.c writes.
 */
#ifndef SHEAF_OS_LONG_REPORT_H
#define SHEAF_OS_LONG_REPORT_H

#include <stdbool.h>
#include <stdint.h>

struct os_long;

/* Begin a report of this kind about a cache. NULL: reports of this kind, or the places, have run
 * out, and it is counted as left out; each of the following then does nothing. */
struct os_long *os_long_begin(const char *about, const char *kind) __attribute__((cold));
/* Add text; what does not fit is cut off. */
void os_long_add(struct os_long *report, const char *format, ...)
	__attribute__((format(printf, 2, 3), cold));
/* Add a line for each of n return addresses of os_stack_walk(). */
void os_long_stack(struct os_long *report, const uintptr_t *ip, unsigned int n)
	__attribute__((cold));
/* It is complete: os_report_kept() writes it. */
void os_long_end(struct os_long *report) __attribute__((cold));

/* --- for os/report.c -------------------------------------------------------------------------- */

/* Write reports of this thread, and those that others left if they are taken at once; with may_wait
 * false, all of them only then. With may_call, the program's callback may run. */
void os_long_write(bool may_wait, bool may_call) __attribute__((cold));
/* In a forked child: forget those of other threads. Returns how many are left. */
uint32_t os_long_after_fork(void);

#endif
