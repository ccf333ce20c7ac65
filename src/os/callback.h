/* SPDX-License-Identifier: MIT */
/*
 * The program's callback for reports (sheaf_set_report()).
 *
 *   fn, data | in[]: the threads that are in it now
 *
 * A thread first enters itself in a place of in[] and then reads fn; who changes fn does the
 * opposite, so one of the two sees the other. A thread that finds no place free does not call.
 *
 * Invariants
 *  C1. It runs with no lock held. It never runs in a call that promises not to wait, in a forked
 *      child before fork() has returned, or at exit.
 *  C2. A thread that is in it does not enter it again: what its own calls of the library report
 *      goes to the descriptor (sink.h).
 *  C3. After os_callback_set() no thread is in the callback that was set before.
 *
 * Locks: none. Callers: os/report.c, os/long_report.c; src/cache/ for fork, exit and the public
 * call.
 */
#ifndef SHEAF_OS_CALLBACK_H
#define SHEAF_OS_CALLBACK_H

#include <stdbool.h>
#include <stddef.h>

typedef void os_callback(void *data, const char *text, size_t length);

/* Set the callback; NULL: none. Waits until the previous one has returned in all threads. In a
 * callback it changes nothing and returns false. */
bool os_callback_set(os_callback *fn, void *data);
/* From now on none runs. Waits for nobody: at exit. */
void os_callback_unset(void);

/* Let the callback have the text; false if there is none, or it may not run in this thread now. */
bool os_callback_call(const char *text, size_t length) __attribute__((cold));

/* In a forked child, in which no callback runs until the second call. */
void os_callback_after_fork(void);
void os_callback_forked(void);

#endif
