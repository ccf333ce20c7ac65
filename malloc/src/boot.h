/* SPDX-License-Identifier: MIT */
/*
 * The boot heap: 64 KiB for calls that libsheaf cannot serve, because this thread is initialising
 * it, or holds its locks for fork().
 *
 *   | size, flag | block ... | size, flag | block ... | 0 ...
 *   0                                                 used
 *
 * A block is carved from the end, and later used again as it is: none is split or joined.
 *
 * Invariants
 *  BOOT-H1. A size is written once. A block is the thread's that sets the flag in it.
 *  BOOT-H2. A size of 0 ends the search: a thread has carved that block and not yet written the
 *      size, or vanished by fork. Later blocks are then not used again; no thread waits.
 *
 * Locks: none. Complexity: O(blocks). Callers: malloc/src/.
 */
#ifndef SHEAF_MALLOC_BOOT_H
#define SHEAF_MALLOC_BOOT_H

#include <stdbool.h>
#include <stddef.h>

#define BOOT_BYTES (64u << 10)

/* Is this a block of the heap? */
bool boot_owns(const void *block);
/* A zeroed block, aligned to 16 bytes, or NULL. */
void *boot_alloc(size_t size);
void boot_free(void *block);
size_t boot_size(const void *block);

#endif
