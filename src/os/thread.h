/* SPDX-License-Identifier: MIT */
/*
 * A thread of the library, in linux/thread.c. It ends with the process, and does not exist in a
 * forked child. It takes no signal. Callers: src/cache/.
 */
#ifndef SHEAF_OS_THREAD_H
#define SHEAF_OS_THREAD_H

#include <stdbool.h>

/* Start a thread that runs body(), which does not return. Returns false if the system refuses.
 * errno is preserved. */
bool os_thread_start(void (*body)(void));

#endif
