/* SPDX-License-Identifier: MIT */
/* Addresses from mmap(), anywhere: in memory.c. Callers: src/os/linux/. */
#ifndef SHEAF_OS_LINUX_MAP_H
#define SHEAF_OS_LINUX_MAP_H

#include <stddef.h>
#include <sys/mman.h>

/* Private and not set aside; NULL if refused. errno is the caller's to keep. */
void *map_anywhere(size_t size, int protection);

#endif
