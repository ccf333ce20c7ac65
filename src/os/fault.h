/* SPDX-License-Identifier: MIT */
/*
 * Accesses that the machine refuses: the signals SIGSEGV and SIGBUS.
 *
 *   fault --> our handler: explain(address) --> the handler before ours
 *                                          `--> none: the default action, and the access again
 *
 * Our handler lets explain() report the address. Then it calls the previous handler, with the
 * signals blocked that the previous handler asked for. If there was none, it restores the default
 * action and returns: the instruction faults once more, and a core file points to it.
 *
 * Invariants
 *  FAULT-F1. The handler before ours gets the same arguments as we do.
 *  FAULT-F2. The handler runs on the thread's alternate stack, if there is one. Otherwise it runs
 *      on the usual stack, which has room: a touched guard page is no overflow of the stack.
 *      Argued: that is SA_ONSTACK.
 *
 * Locks: none. Callers: src/debug/.
 */
#ifndef SHEAF_OS_FAULT_H
#define SHEAF_OS_FAULT_H

#include <stdbool.h>
#include <stdint.h>

enum os_access {
	OS_ACCESS, /* the machine does not report which */
	OS_READ,
	OS_WRITE,
};

struct os_fault {
	const void *address;
	uintptr_t ip; /* the instruction; 0: not known */
	enum os_access access;
};

/* Read what the machine reports about an access to this address. context: a handler's third
 * argument, or NULL. */
void os_fault_read(struct os_fault *fault, const void *address, const void *context);

/* Handle both signals from now on; once a process. */
void os_fault_watch(bool (*explain)(const void *address, const void *context));

#endif
