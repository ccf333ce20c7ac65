/* SPDX-License-Identifier: MIT */
/*
 * Pages that fault when they are touched.
 *
 *   guarded range | closed | closed | open | closed | open | open | closed | ...
 *
 * A range is closed everywhere, except where pages were opened. Since 6.13, Linux can mark closed
 * pages in its page tables (light guards). The range is then one mapping, however many pages are
 * open. On older systems a page is closed by its protection, and each opened part costs two
 * mappings, of which a process may have few (os_mappings_limit()).
 *
 * Invariants
 *  GUARD-P1. Sizes and addresses are whole pages of the system.
 *  GUARD-P2. Every call preserves errno, and is async-signal-safe. Argued: they are system calls.
 *
 * Locks: none. Callers: src/debug/.
 */
#ifndef SHEAF_OS_GUARD_H
#define SHEAF_OS_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum os_guard {
	OS_GUARD_LIGHT,
	OS_GUARD_PROTECTION, /* opened pages cost mappings */
	OS_GUARD_NONE,	     /* all of it is open */
};

/* Make reserved addresses (os_reserve()) a guarded range, all of it closed. Light guards are
 * refused by an old kernel, for locked memory, and by filters of system calls. */
enum os_guard os_guard_begin(void *address, size_t size);
/* Open closed pages of such a range for reading and writing. Their content is unspecified. */
bool os_guard_open(void *address, size_t size, enum os_guard guard);
/* Close opened pages and return their memory. False: the system refuses; they must not be
 * opened again, and may still be open. */
bool os_guard_close(void *address, size_t size, enum os_guard guard);

/* --- linux/fault.c ---------------------------------------------------------------------------- */

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
 */

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
