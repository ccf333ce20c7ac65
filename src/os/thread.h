/* SPDX-License-Identifier: MIT */
/*
 * The library's own thread, which ends with the process, does not exist in a forked child, and
 * takes no signal; and the cancellation and the stack of any thread. In linux/thread.c.
 *
 * Callers: src/cache/ for the library's thread, src/grace/ to ask for it; os/enter_program.h and
 * os/linux/channel.c for the rest.
 */
#ifndef SHEAF_OS_THREAD_H
#define SHEAF_OS_THREAD_H

#include <stdbool.h>

/* Start a thread that runs body(), which does not return. Returns false if the system refuses.
 * errno is preserved. */
bool os_thread_start(void (*body)(void));
/* Is this the thread that was started last? */
bool os_thread_is_own(void);
/* In a forked child. */
void os_thread_forget(void);

/*
 * Switch this thread's cancellation off, and back to what the first call returned: around functions
 * of the program, which may contain cancellation points. A thread that ended there would leave
 * its call of the library half done. A few nanoseconds.
 */
int os_cancel_off(void);
void os_cancel_restore(int before);

/* Does a signal handler run here, on an alternate stack? A system call. */
bool os_on_signal_stack(void);

#endif
