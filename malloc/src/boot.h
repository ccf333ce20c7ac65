/* SPDX-License-Identifier: MIT */
/*
 * The boot heap: 64 KiB for a program that has not needed libsheaf yet, and for calls that libsheaf
 * cannot serve, because this thread is initialising it, or holds its locks for fork().
 *
 *   | head | block ... | padding | head | block, aligned ... | 0 ...
 *   0                                                        used
 *
 * A block is carved from the end, and later used again for the same rounded size: none is split or
 * joined. A list for each size has its free blocks, the last one first.
 *
 * Invariants
 *  BOOT-H1. A size is written once, and a mark says that a block of this size begins here. A
 *      block is the thread's that changes its state.
 *  BOOT-H2. A list is a hint: threads that change it at once may lose blocks, or leave one in it
 *      that is in use. Lost blocks are not used again; no thread waits.
 *
 * Locks: none. Complexity: O(1). Callers: malloc/src/.
 */
#ifndef SHEAF_MALLOC_BOOT_H
#define SHEAF_MALLOC_BOOT_H

#include "cache/block.h"

#define BOOT_BYTES  (64u << 10)
#define BOOT_CALLS  4096u	/* take as long in it as libsheaf takes to begin */
#define BOOT_SERVED (48u << 10) /* of them before libsheaf begins; the rest is for afterwards */

/* A zeroed block, in the first `end` bytes of the heap, or NULL. align: a power of two, at least
 * 16. */
void *boot_alloc(size_t align, size_t size, size_t end);
/* The program gives up this block. False: no block in use begins here. */
bool boot_retire(void *block);
/* Free a retired block; false: it is none. */
bool boot_free(void *block);
/* Bytes of the block in use or retired that begins here; 0: there is none. */
size_t boot_size(const void *block);
/* Is it retired? */
bool boot_waits(const void *block);
/* These calls, for libsheaf's own frees (cache/block.h). */
extern const struct boot_heap boot_heap __attribute__((visibility("hidden")));
/* Bytes that were ever carved. */
size_t boot_used(void);

#endif
