/* SPDX-License-Identifier: MIT */
/*
 * Files. Those of /proc and /sys are read with system calls: the C library's functions are
 * cancellation points, and a thread that is cancelled there would leave the library's locks held.
 * errno may change.
 *
 * Callers: src/os/linux/.
 */
#ifndef SHEAF_OS_LINUX_FILE_H
#define SHEAF_OS_LINUX_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

/* Read a small file; returns the length, or -1. */
int os_file_read(const char *path, char *text, size_t size);

/* How long a file may get (ulimit -f): to write beyond that raises SIGXFSZ, even for a file in
 * memory. */
static inline size_t os_file_longest(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit))
		return 0;
	return limit.rlim_cur == RLIM_INFINITY ? SIZE_MAX : (size_t)limit.rlim_cur;
}

#endif
