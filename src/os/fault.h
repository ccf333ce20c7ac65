/* SPDX-License-Identifier: MIT */
/*
 * Signals of accesses that the machine refused: SIGSEGV and SIGBUS.
 *
 * The library's handler reports the address, if it can explain it, and passes the signal on: it
 * calls the handler that was there before, with that handler's mask. If there was none, it restores
 * the default action, and the instruction faults once more, so that a core file points to it. It
 * runs on the thread's alternate stack if there is one, otherwise on the usual stack: an access to
 * a guard page is no overflow of the stack.
 *
 * Callers: src/debug/.
 */
#ifndef SHEAF_OS_FAULT_H
#define SHEAF_OS_FAULT_H

#include <stdbool.h>
#include <stdint.h>

enum os_access {
	OS_ACCESS, /* the machine does not say which */
	OS_READ,
	OS_WRITE,
};

struct os_fault {
	const void *address;
	uintptr_t ip; /* the instruction; 0: not known */
	enum os_access access;
};

/* What the machine says of an access to this address. context: a handler's third argument, or
 * NULL. */
void os_fault_read(struct os_fault *fault, const void *address, const void *context);

/* Handle both signals from now on; once a process. */
void os_fault_watch(bool (*explain)(const void *address, const void *context));

#endif
