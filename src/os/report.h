/* SPDX-License-Identifier: MIT */
/*
 * One clear line to where reports go (os/sink.h), which is standard error unless the program says
 * otherwise: for misuse and for what the machine refuses.
 *
 * Formats into the stack and writes at once: allocates nothing, takes no lock, may be called from
 * anywhere. errno is preserved.
 *
 * That system call may last for ever: standard error may be a pipe that nobody reads. So a line is
 * written by who holds no lock, has nothing in hand and keeps nobody waiting; where that cannot be
 * said, as in all that slow paths and drains do, it is kept, and the same thread writes it when it
 * can. A call that may come from a signal handler cannot say it: its lines are written if that
 * takes no waiting, which only a pipe, a socket or a file can tell; for a terminal or another
 * device they wait for a call that may. What a descriptor does not take that never waits is kept for
 * a later call, too.
 *
 * Invariants
 *  T1. No ranked lock is held while a line is written, unless standard error takes it at once:
 *      debug builds and the simulator look.
 *  T2. A kept line is the thread's that kept it, which writes it before its call of the library
 *      returns; if that call must not wait and standard error takes nothing, a later call of any
 *      thread does, as soon as that takes no waiting.
 *  T3. At most KEPT lines are kept at once; of those beyond, only the number is told.
 *
 * Misuse is what the program did wrong. Its reports carry the stack at the place of misuse
 * (os/stack.h), and are limited by number, not by time: of one kind (the format) about one thing (a
 * cache's name, or NULL) the first five are written, then the 10th, the 100th and so on. How many
 * were left out is written at exit. With panic_on_warn the program is aborted as soon as a report
 * of misuse is written.
 *
 * Callers: every layer.
 */
#ifndef SHEAF_OS_REPORT_H
#define SHEAF_OS_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "os/atomic.h"

void os_report(const char *format, ...) __attribute__((format(printf, 1, 2), cold));
/* The same, by os_report_kept(). */
void os_report_later(const char *format, ...) __attribute__((format(printf, 1, 2), cold));
/* The same two for misuse: of `about`, a cache's name or NULL. */
void os_misuse(const char *about, const char *format, ...)
	__attribute__((format(printf, 2, 3), cold));
void os_misuse_later(const char *about, const char *format, ...)
	__attribute__((format(printf, 2, 3), cold));
/* The same as os_report(), and then abort(). */
void os_fatal(const char *format, ...) __attribute__((format(printf, 1, 2), cold, noreturn));
/* os_report() and os_report_later(), the first time only for this flag. */
#define os_report_once(flag, ...)                                                                  \
	do {                                                                                       \
		if (!os_exchange((flag), 1))                                                       \
			os_report(__VA_ARGS__);                                                    \
	} while (0)
#define os_report_once_later(flag, ...)                                                            \
	do {                                                                                       \
		if (!os_exchange((flag), 1))                                                       \
			os_report_later(__VA_ARGS__);                                              \
	} while (0)

/* Lines that threads keep; private to the next one. */
extern uint32_t os_reports_kept;
void os_write_kept(void) __attribute__((cold));
void os_write_kept_nowait(void) __attribute__((cold));
/* In a handler of a fault, after which the program may end: waits, calls no callback of the
 * program, and does not ask which locks the thread holds. */
void os_write_kept_at_fault(void) __attribute__((cold));

/* Write what this thread keeps, and, if that takes no waiting, what others have left. */
static inline void os_report_kept(void)
{
	if (__builtin_expect(os_load_relaxed(&os_reports_kept) != 0, 0))
		os_write_kept();
}

/* The same for calls in any context: what standard error does not take at once stays kept. */
static inline void os_report_kept_nowait(void)
{
	if (__builtin_expect(os_load_relaxed(&os_reports_kept) != 0, 0))
		os_write_kept_nowait();
}

/* In a forked child: other threads' are not its own. */
void os_reports_after_fork(void);

/* For os/long_report.c: which one of its kind the next report is, 0 if it is left out; another is
 * lost, because nothing can keep it. */
uint32_t os_misuse_count(const char *about, const char *format) __attribute__((cold));
void os_report_lost(void) __attribute__((cold));

/* Count misuse anew. */
void os_misuse_forget(void);
/* At exit: how many reports of misuse were left out, if any. */
void os_report_left_out(void);
/* A text as it is, to standard error. With no lock held. */
void os_print(const char *text);

/* Lines made so far, and those of misuse that were left out. */
extern uint32_t os_reports;

#endif
