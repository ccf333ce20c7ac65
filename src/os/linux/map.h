/* SPDX-License-Identifier: MIT */
/* Addresses from mmap(), anywhere; defined in memory.c. Callers: src/os/linux/. */
#ifndef SHEAF_OS_LINUX_MAP_H
#define SHEAF_OS_LINUX_MAP_H

#include <stdbool.h>
#include <stddef.h>

/* Reserve addresses (os/memory.h) that are not aligned; NULL if refused. Callers preserve errno. */
void *map_anywhere(size_t size);

/* In refused.c: note, for os_refusal(), that the system just refused so many bytes, with this
 * errno. */
void map_refused(size_t size, bool writable);

#endif
