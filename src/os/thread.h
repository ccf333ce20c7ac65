/* SPDX-License-Identifier: MIT */
/*
 * A thread of the library, in linux/thread.c. It ends with the process, and does not exist in a
 * forked child. It takes no signal. And the state of any thread. Callers: src/cache/; of the
 * latter, every layer that calls functions of the program.
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
 * what its call of the library had begun. A few nanoseconds.
 */
int os_cancel_off(void);
void os_cancel_restore(int before);

/* Does a signal handler run here, on an alternate stack? A system call. */
bool os_on_signal_stack(void);

#endif
