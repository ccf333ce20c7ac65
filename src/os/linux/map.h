/* SPDX-License-Identifier: MIT */
/* Addresses from mmap(), anywhere; defined in memory.c. Callers: src/os/linux/. */
#ifndef SHEAF_OS_LINUX_MAP_H
#define SHEAF_OS_LINUX_MAP_H

#include <stddef.h>
#include <sys/mman.h>

/* Private memory without a reservation; NULL if refused. Callers preserve errno. */
void *map_anywhere(size_t size, int protection);

#endif
