/* SPDX-License-Identifier: MIT */
/*
 * The program's callback for reports (sheaf_set_report()).
 *
 *   fn, data | in[]: the threads that are in it now
 *
 * A thread first enters itself in a place of in[], and then reads fn. A thread that changes fn does
 * this in the opposite order, so one of the two sees the other. A thread that finds no free place
 * does not call fn.
 *
 * Invariants
 *  CALLBACK-C1. The callback runs with no lock held, and the thread is not cancelled in it. It
 *      never runs in a call that promises not to wait, in a forked child before fork() has
 *      returned, or at exit.
 *  CALLBACK-C2. A thread that is in the callback does not enter it again: reports from its own
 *      calls of the library go to the descriptor (sink.h).
 *  CALLBACK-C3. After os_callback_set() no thread is in the callback that was set before. One that
 *      left it without a return (longjmp, an exception), which it must not, seems to be in it until
 *      it calls it again.
 *
 * Locks: none. Callers: os/report/record.c, os/report/report.c; src/cache/ for fork, exit and the
 * public call.
 */
#ifndef SHEAF_OS_CALLBACK_H
#define SHEAF_OS_CALLBACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/compiler.h"

typedef void os_callback(void *data, const char *text, size_t length);

/*
 * Set the callback; NULL: none. Waits until the previous one has returned in all threads, and
 * stores what that was before the new one can run. Called from the callback itself, it changes
 * nothing and returns false.
 */
bool os_callback_set(os_callback *fn, void *data, os_callback **old_fn, void **old_data);
/* At exit: from now on no callback runs. Does not wait. */
void os_callback_unset(void);

/* Pass the text to the callback. Returns false if there is none, or if it may not run in this
 * thread now. Else *used, unless that is NULL, becomes 0 when the callback has returned, or when it
 * is found that it was left. */
bool os_callback_call(const char *text, size_t length, uintptr_t *used) OS_COLD;

/* In a forked child: no callback runs between these two calls. */
void os_callback_after_fork(void);
void os_callback_forked(void);

#endif
