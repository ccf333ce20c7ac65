/* SPDX-License-Identifier: MIT */
/*
 * Blocks that are larger than a page run, each a mapping of its own, and the table that finds them.
 *
 *   leaves[]: by 8 GiB of addresses      a leaf: an entry for each 2 MiB
 *
 *   | NULL | leaf | NULL | ...           | 0 | size, HEAD | 1 back | 2 back | 0 | ...
 *             `------------------------>      `------- one block -------'
 *
 * Blocks are aligned to OS_HUGE, so an entry belongs to one of them at most. The first one of a
 * block holds its size, each further one how far before it that is: two entries tell the block of
 * any address in it. A block of 1 GiB costs 512 stores, which are nothing beside its page faults; a
 * free costs one.
 *
 * Invariants
 *  G1. A block's first entry is there exactly as long as the block is somebody's: who exchanges it
 *      for 0, and nobody else, unmaps the block.
 *  G2. A distance tells only where to look, and is left when its block has gone: whether a block is
 *      there and reaches as far decides its size.
 *  G3. Entries are written only while their addresses are mapped for a block, so by nobody else.
 *  G4. Leaves are made when a block needs them, and stay.
 *
 * Locks: none. map_find() is async-signal-safe. A fork beside a thread that is about to map or
 * unmap a block leaves the child a mapping that is nobody's; map_bytes() counts it.
 * Complexity: that of the system's calls; the table costs the same however many blocks there are.
 * Callers: src/cache/, src/stats/.
 */
#ifndef SHEAF_PAGE_MAP_H
#define SHEAF_PAGE_MAP_H

#include <stdbool.h>
#include <stddef.h>

struct mapping {
	char *address;
	size_t size; /* bytes, whole pages of the system */
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

#endif
