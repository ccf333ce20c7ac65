/* SPDX-License-Identifier: MIT */
/*
 * Files of /proc and /sys, read with system calls: the C library's functions are cancellation
 * points, and a thread that is cancelled there would leave the library's locks held. errno may
 * change.
 *
 * Callers: src/os/linux/.
 */
#ifndef SHEAF_OS_LINUX_FILE_H
#define SHEAF_OS_LINUX_FILE_H

#include <stddef.h>

/* Read a small file; returns the length, or -1. */
int os_file_read(const char *path, char *text, size_t size);

#endif
