/* SPDX-License-Identifier: MIT */
/* Objects between guard pages. */
#ifndef SHEAF_TESTS_GUARDED_H
#define SHEAF_TESTS_GUARDED_H

#include <fcntl.h>
#include <sheaf/kmalloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

/* Can the system read this byte? It goes through a pipe that stays open: some tests ask for
 * hundreds of thousands of objects. */
static inline bool is_readable(uintptr_t address)
{
	static int ends[2];
	char byte;

	if (!ends[1] && pipe2(ends, O_CLOEXEC) != 0)
		abort();
	return write(ends[1], (const void *)address, 1) == 1 && read(ends[0], &byte, 1) == 1;
}

/* Is an object in use between two pages that nobody may access? */
static inline bool is_guarded(const void *object)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)object & -page;
	uintptr_t end = ((uintptr_t)object + ksize(object) + page - 1) & -page;

	return is_readable(begin) && !is_readable(begin - 1) && !is_readable(end);
}

#endif
