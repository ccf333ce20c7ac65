/* SPDX-License-Identifier: MIT */
/*
 * Lines that cannot be written now, and are kept until a call that may write them: REPORT-T2.
 *
 *   places: | free | claimed by a thread that fills or writes it | ready, by its thread | ...
 *                                                                  or by any thread
 *
 * Locks: none. Callers: os/report.c; os/long_report.c when a report finds no place.
 */
#ifndef SHEAF_OS_KEPT_H
#define SHEAF_OS_KEPT_H

#include <stdint.h>

#include "os/line.h"

#define OS_KEPT 16 /* places */

struct os_kept {
	uint32_t state;
	uintptr_t by; /* a thread; 0: any thread */
	struct os_line line;
};

/* A place for a line of this thread; NULL: all are taken, and the line is lost. */
struct os_kept *os_kept_claim(void);
/* Its line is complete: this thread writes it later. */
void os_kept_add(struct os_kept *place);
/* The same, but drop it if a line of this thread with the same text waits already. */
void os_kept_add_once(struct os_kept *place);
/* Keep a line that nothing accepted: any thread may write it. */
void os_kept_copy(const struct os_line *line);
/* Count a report that is lost, because there was no place for it. */
void os_kept_lost(void) __attribute__((cold));

/* In a forked child: forget the lines of other threads. Returns how many are left. */
uint32_t os_kept_after_fork(void);

#endif
