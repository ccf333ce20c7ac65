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

enum os_guard {
	OS_GUARD_LIGHT,
	OS_GUARD_PROTECTION, /* opened pages cost mappings */
};

/* Make reserved addresses (os_reserve()) a guarded range, all of it closed. Light guards are
 * refused by an old kernel, for locked memory, and by filters of system calls. */
enum os_guard os_guard_begin(void *address, size_t size);
/* Open closed pages of such a range for reading and writing. Their content is unspecified. */
bool os_guard_open(void *address, size_t size, enum os_guard guard);
/* Close opened pages, and give their memory back. False: the system refuses; they must not be
 * opened again, and may still be open. */
bool os_guard_close(void *address, size_t size, enum os_guard guard);

#endif
