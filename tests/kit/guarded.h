/* SPDX-License-Identifier: MIT */
/* Objects between guard pages. */
#ifndef SHEAF_TESTS_GUARDED_H
#define SHEAF_TESTS_GUARDED_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

/* Can the system read this byte? */
static inline bool is_readable(uintptr_t address)
{
	int ends[2];
	bool can = pipe2(ends, O_CLOEXEC) == 0 && write(ends[1], (const void *)address, 1) == 1;

	close(ends[0]);
	close(ends[1]);
	return can;
}

/* Is the page of an object in use, of a page at most, between two that nobody may access? */
static inline bool is_guarded(const void *object)
{
	uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE), page = (uintptr_t)object & -size;

	return is_readable(page) && !is_readable(page - 1) && !is_readable(page + size);
}

#endif
