/* SPDX-License-Identifier: MIT */
/*
 * Reports of many lines, for misuse that needs evidence: which bytes are wrong, who allocated and
 * who freed the object.
 *
 * Such a report is misuse as os/report.h describes it: it is limited by kind and cache, and
 * panic_on_warn ends the program after it. It is made in one of a few places in static memory,
 * without a lock or a wait, so that it may be made in any context; and it is written when kept
 * lines are written. Each piece that is written at once consists of whole lines and is shorter than
 * PIPE_BUF: other threads' lines may come between its lines, but never into one.
 *
 * Invariants
 *  LONG_REPORT-G1. A place is free, claimed by the thread that fills or writes it, or ready. Only
 *      one thread claims a ready one.
 *  LONG_REPORT-G2. Each part of a ready place is written once, even if another thread continues.
 *
 * Callers: src/debug/; os/kept.c writes.
 */
#ifndef SHEAF_OS_LONG_REPORT_H
#define SHEAF_OS_LONG_REPORT_H

#include <stdbool.h>
#include <stdint.h>

struct os_long;

/* Begin a report of this kind about a cache. NULL: too many reports of this kind, or no free place;
 * the report is counted as left out, and the calls below do nothing. */
struct os_long *os_long_begin(const char *about, const char *kind) __attribute__((cold));
/* Add text; text that does not fit is cut off. */
void os_long_add(struct os_long *report, const char *format, ...)
	__attribute__((format(printf, 2, 3), cold));
/* Add a line for each of n return addresses of os_stack_walk(). */
void os_long_stack(struct os_long *report, const uintptr_t *ip, unsigned int n)
	__attribute__((cold));
/* The report is complete; os_report_kept() writes it. */
void os_long_end(struct os_long *report) __attribute__((cold));

/* --- for os/kept.c and os/report.c ------------------------------------------------------------ */

/* Write this thread's reports and, unless the descriptor is full, those that others left. Those of
 * others, and without may_wait all, are written only if the descriptor accepts them at once. With
 * may_call, the program's callback may run. */
void os_long_write(bool may_wait, bool may_call, bool full) __attribute__((cold));
/* In a forked child: forget the reports of other threads. Returns how many are left. */
uint32_t os_long_after_fork(void);

#endif
