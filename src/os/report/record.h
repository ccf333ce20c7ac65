/* SPDX-License-Identifier: MIT */
/*
 * The queue of reports: each is made in one of a few places in static memory, without a lock or a
 * wait, so that it may be made in any context. It is written immediately, or when the call that
 * made it may write.
 *
 *   places: | free | claimed by the thread that fills or writes it | ready, for its thread | ...
 *                                                                     or for any thread
 *
 * A report is a line, or many lines of evidence: which bytes are wrong, who allocated and who freed
 * the object. Each piece that one call writes consists of whole lines and is shorter than
 * PIPE_BUF: other threads' lines may come between its lines, but never into one.
 *
 * Invariants
 *  RECORD-Q1. A place is free, claimed, or ready. Only one thread claims a ready one. A word says
 *      this and whose it is, so a fork comes before or after a change.
 *  RECORD-Q2. Each part of a report is written once, even if another thread continues.
 *
 * Locks: none. Callers: src/os/report/; src/debug/ for reports of many lines.
 */
#ifndef SHEAF_OS_RECORD_H
#define SHEAF_OS_RECORD_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "os/compiler.h"

#define OS_RECORDS	16   /* places */
#define OS_RECORD_BYTES 8192 /* stacks of 16 functions three times, and a dump */

struct os_record {
	uintptr_t state;
	uint32_t length, written;
	bool last; /* abort the program when it is written */
	char text[OS_RECORD_BYTES];
};

/* A place for a report of this thread; `last`: the program is aborted when it is written, so there
 * is one more place for it. NULL: all are taken, the report is counted as lost, and the calls below
 * do nothing. */
struct os_record *os_record_claim(bool last) OS_COLD;
/* Claim one for misuse of this kind (report.h) about a cache. NULL also if it is left out. */
struct os_record *os_record_begin(const char *about, const char *kind) OS_COLD;

/* Add the text of a line, with the library's name in front, and without control characters. */
void os_record_line(struct os_record *record, const char *format, va_list arguments)
	__attribute__((format(printf, 2, 0), cold));
/* Add text; text that does not fit is cut off. */
void os_record_add(struct os_record *record, const char *format, ...)
	__attribute__((format(printf, 2, 3), cold));
/* Add a line for each of n return addresses of os_stack_walk(). */
void os_record_stack(struct os_record *record, const uintptr_t *ip, unsigned int n) OS_COLD;

/* The report is complete: os_report_kept() writes it. Adds a missing line feed. `once`: drop it if
 * one of this thread with the same text waits already. */
void os_record_end(struct os_record *record, bool once) OS_COLD;

/* In a forked child: forget the reports of other threads. */
void os_records_after_fork(void);

#endif
