/* SPDX-License-Identifier: MIT */
/*
 * The current group of each thread: the library's only thread-local variable.
 *
 * It is not in static thread-local storage: a program that loads the library with dlopen() may have
 * none left, and the dynamic loader would then refuse the library. With descriptors
 * (-mtls-dialect=gnu2, and the default of AArch64), the loader places the variable there if it can;
 * otherwise a thread's first read allocates it. In a program that is linked with the static
 * library, a read is one load.
 *
 * In linux/thread.c. Callers: src/group/, and the paths of charged objects in src/cache/.
 */
#ifndef SHEAF_OS_CURRENT_H
#define SHEAF_OS_CURRENT_H

#include <stdbool.h>
#include <stdint.h>

struct os_current {
	uint32_t group; /* the number of the group that pays */
	uint32_t own; /* the same, unless a call names another group; the thread has a reference */
	uint32_t inside; /* functions of the program that the library called: enter_program.h */
};

#ifdef SHEAF_SIM
struct os_current *os_current_group(void);
#else
extern __thread struct os_current os_group_of_thread
	__attribute__((tls_model("global-dynamic"), visibility("hidden")));

static inline struct os_current *os_current_group(void)
{
	return &os_group_of_thread;
}
#endif

/* Call this in each thread that ends with a current group, with its number: false if the system has
 * no room for that now. One thread at a time. */
bool os_at_thread_end(void (*end)(uint32_t group));
/* The thread has a current group for the first time. False: os_at_thread_end() has not succeeded
 * yet. A thread that cannot be noted either keeps its reference. */
bool os_has_group(void);

#endif
