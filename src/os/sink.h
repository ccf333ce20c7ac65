/* SPDX-License-Identifier: MIT */
/*
 * Where reports go: to a callback of the program, to the file of SHEAF_OPTIONS=report=PATH, or to
 * standard error.
 *
 *   a piece of text, whole lines --> callback, if the program set one and it may run here
 *                               `--> file --(it takes nothing any more)--> standard error
 *
 * The file is opened at the first use, and held by a descriptor with a high number. A program that
 * closes all descriptors may give that number to a file of its own; so each write looks first
 * whether the descriptor is still that file, and opens the file again if not. With %p, the PID, in
 * its path, a forked child opens a file of its own at its first report.
 *
 * A write never ends the program: SIGPIPE and SIGXFSZ, which a pipe without reader and a file that
 * is too long would raise, are held back. What a pipe that does not wait cannot take now is kept
 * (report.h), what nobody can ever take is lost.
 *
 * Invariants
 *  K1. The callback runs with no lock held, never in a call that promises not to wait, never in a
 *      forked child before fork() has returned, never at exit; and in one thread at most once at a
 *      time: a line that its own calls of the library report goes to the descriptor.
 *  K2. After os_sink_set() no thread is in the callback that was set before.
 *
 * Locks: none. Callers: os/report.c, os/long_report.c; src/cache/ for start, fork, exit and the
 * public call.
 */
#ifndef SHEAF_OS_SINK_H
#define SHEAF_OS_SINK_H

#include <stdbool.h>
#include <stddef.h>

typedef void os_sink_fn(void *data, const char *text, size_t length);

/* At the first use, with no lock held: open the file that the options name. */
void os_sink_open(void) __attribute__((cold));
/* Set the callback; NULL: none. Waits until the previous one has returned in all threads. In a
 * callback it changes nothing and returns false. */
bool os_sink_set(os_sink_fn *fn, void *data);
/* From now on none runs. Waits for nobody: at exit. */
void os_sink_unset(void);

/* Let the callback have the text; false if there is none, or it may not run in this thread now. */
bool os_sink_call(const char *text, size_t length) __attribute__((cold));
/* Write to the descriptor. How many bytes need not be written again; 0: it takes nothing now. */
size_t os_sink_write(const char *text, size_t length) __attribute__((cold));
/* The same, of a line after which the program ends: waits a second if it must. */
void os_sink_write_last(const char *text, size_t length) __attribute__((cold));

/* Does the descriptor take a piece at once? With may_wait, a terminal with room for a byte does. */
bool os_sink_has_room(bool may_wait) __attribute__((cold));

/* In a forked child, in which no callback runs until the second call. */
void os_sink_after_fork(void);
void os_sink_forked(void);

#endif
