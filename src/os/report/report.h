/* SPDX-License-Identifier: MIT */
/*
 * Reports of one line, for misuse and for what the machine refuses. They go to standard error,
 * unless the program chose a file (sink.h) or a callback (callback.h).
 *
 * A report is made in a place of a queue (record.h) and written immediately: without allocation or
 * lock, from any context. errno is preserved.
 *
 * That system call may block for ever: standard error may be a pipe that no process reads. So a
 * thread writes a line only while it holds no lock, has nothing in hand and keeps no other thread
 * waiting. Elsewhere, as in slow paths and drains, the line is stored ("kept"), and the same thread
 * writes it before it leaves the library. A call that a signal handler may make must not block: it
 * writes its lines only if the descriptor has room for them, which can be asked of a pipe, a socket
 * or a file. With a terminal or another device the lines stay for a later call that may block; so
 * do lines that a non-blocking descriptor does not take.
 *
 * Invariants
 *  REPORT-T1. No ranked lock is held while a line is written, unless standard error accepts it
 *      immediately. Debug builds and the simulator check this.
 *  REPORT-T2. A kept line belongs to the thread that stored it, which writes it before its call of
 *      the library returns. If that call must not block and standard error has no room, a later
 *      call of any thread writes the line.
 *  REPORT-T3. At most OS_RECORDS reports are stored at a time, including those that are being
 *      written. Of further ones, only the number is reported.
 *
 * Misuse is what the program did wrong. A report of misuse contains the stack at that moment
 * (unwind/stack.h). Such reports are limited by number, not by time: of each kind (the format) and
 * subject (a cache's name, or NULL) the first five are written, then the 10th, the 100th and so on.
 * At exit, a line gives the number of those left out. With panic_on_warn the program is aborted as
 * soon as a report of misuse is written.
 *
 * Callers: every layer.
 */
#ifndef SHEAF_OS_REPORT_H
#define SHEAF_OS_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "os/atomic.h"

/* Replace control characters by ?. */
void os_make_plain(char *text, size_t length);
/* Copy a name that will be part of reports, which are one line long: cut to `size` - 1 characters,
 * and with ? for control characters. */
void os_clean_name(char *clean, size_t size, const char *name);

void os_report(const char *format, ...) __attribute__((format(printf, 1, 2), cold));
/* As os_report(), but store the line for os_report_kept(), unless the same one is stored. */
void os_report_later(const char *format, ...) __attribute__((format(printf, 1, 2), cold));
/* As os_report(), and then abort(). */
void os_fatal(const char *format, ...) __attribute__((format(printf, 1, 2), cold, noreturn));
/* os_report() and os_report_later(), the first time only for this flag. */
#define os_report_once(flag, ...) (os_exchange((flag), 1) ? (void)0 : os_report(__VA_ARGS__))
#define os_report_once_later(flag, ...)                                                            \
	(os_exchange((flag), 1) ? (void)0 : os_report_later(__VA_ARGS__))

/* Write this text to standard error, unchanged. The caller holds no lock. */
void os_print(const char *text);

/* In a forked child: forget the reports of other threads. */
void os_reports_after_fork(void);

/* The ending of the noun for n things. */
static inline const char *os_plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* --- misuse.c --------------------------------------------------------------------------------- */

/* os_report() and os_report_later() for misuse. about: a cache's name, or NULL. */
void os_misuse(const char *about, const char *format, ...)
	__attribute__((format(printf, 2, 3), cold));
void os_misuse_later(const char *about, const char *format, ...)
	__attribute__((format(printf, 2, 3), cold));
/* os_misuse_later() for a pointer that is no block in use, given to a call that frees or resizes
 * one. The program is aborted then, too, if the layer above libsheaf said so: a wrong free by
 * malloc()'s calls damages memory. */
void os_misuse_pointer_later(const char *about, const char *format, ...)
	__attribute__((format(printf, 2, 3), cold));
extern uint32_t os_wrong_pointer_ends __attribute__((visibility("hidden")));
/* The number of the next report of this kind; 0: it is left out. There are places for some 3000
 * pairs of a kind and a cache. */
uint32_t os_misuse_count(const char *about, const char *format) OS_COLD;
/* Reset the counts. */
void os_misuse_forget(void);
/* At exit: report how many reports were left out, if any. */
void os_misuse_left_out(void);

/* --- record.c --------------------------------------------------------------------------------- */

/* The number of reports made so far, and of reports of misuse that were left out. */
extern uint32_t os_reports;
/* The number of kept reports; private to the functions below. */
extern uint32_t os_reports_kept __attribute__((visibility("hidden")));
void os_write_kept(void) OS_COLD;
void os_write_kept_nowait(void) OS_COLD;
/* For a fault handler, or when the program is aborted: waits, calls no callback of the program,
 * and does not check which locks the thread holds. */
void os_write_kept_at_fault(void) OS_COLD;

/* Write the lines that this thread keeps, and, if that needs no wait, those that others have
 * left. */
static inline void os_report_kept(void)
{
	if (os_unlikely(os_load_relaxed(&os_reports_kept)))
		os_write_kept();
}

/* As os_report_kept(), in any context: lines that standard error does not accept immediately
 * stay kept. */
static inline void os_report_kept_nowait(void)
{
	if (os_unlikely(os_load_relaxed(&os_reports_kept)))
		os_write_kept_nowait();
}

#endif
