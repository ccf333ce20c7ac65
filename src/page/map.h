/* SPDX-License-Identifier: MIT */
/*
 * Blocks that are larger than a page run, each a mapping of its own, and the registry of them.
 *
 *   maps.at[0 ... n-1]: address and size of each, sorted by address, in pages of its own
 *
 * Invariants
 *  G1. An address is in the registry exactly as long as its mapping is somebody's: who takes it out
 *      of there, and nobody else, unmaps it.
 *
 * Locks: OS_RANK_MAPS. The system maps and unmaps blocks without it.
 * Complexity: a search is logarithmic; a block is inserted among those above it, by memmove().
 * Callers: src/cache/.
 */
#ifndef SHEAF_PAGE_MAP_H
#define SHEAF_PAGE_MAP_H

#include <stdbool.h>
#include <stddef.h>

struct mapping {
	char *address;
	size_t size; /* bytes, a multiple of OS_PAGE */
};

/* At least size bytes, zero, aligned to `align` (a power of two) and to OS_HUGE, by preference on
 * this node. NULL: no memory or no addresses. */
void *map_alloc(size_t size, size_t align, unsigned int node);
/* Give a block back; false if none begins at this address. */
bool map_free(void *address);
/* The block this address is in; {NULL, 0} if it is in none. */
struct mapping map_find(const void *address);
/* Bytes of all blocks. */
size_t map_bytes(void);

/* Around fork(). */
void map_lock(void);
void map_unlock(void);

#endif
