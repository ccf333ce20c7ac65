/* SPDX-License-Identifier: MIT */
/*
 * Large blocks, each a mapping of its own, and the table that finds them.
 *
 *   leaves[]: by 8 GiB of addresses      a leaf: an entry for each 2 MiB
 *
 *   | NULL | leaf | NULL | ...           | 0 | size, HEAD | 1 back | 2 back | 0 | ...
 *             `------------------------>      `------- one block -------'
 *                                          | 0 | a word     | 0      | 0      | 0 | ...
 *
 * Blocks are aligned to OS_HUGE, so an entry belongs to at most one block. A block's first entry
 * holds its size, and each other entry its distance from the first. So two entries give the block
 * of any address in it. A block of 1 GiB costs 512 stores, which is little compared with its page
 * faults; a free costs one store. Freed blocks wait in map_kept.h.
 *
 * Invariants
 *  MAP-G1. A block's first entry is set exactly as long as the block is there. Only the thread that
 *      sets MAP_WAITS in it frees the block, then or later; only one that exchanges an entry
 *      without that bit for 0 moves the block.
 *  MAP-G2. A distance only says where to look, and stays when its block is freed. The size in the
 *      first entry decides whether there is a block, and whether it contains the address.
 *  MAP-G3. A thread writes entries only while their addresses are mapped for its block. So no other
 *      thread writes them.
 *  MAP-G4. Leaves are allocated when a block needs them, and stay. Argued: nothing frees one that
 *      is in the table.
 *
 * Locks: none. map_find() is async-signal-safe. If the process forks while another thread is about
 * to map or unmap a block, the child has a mapping that no thread owns; map_bytes() counts it.
 * Complexity: that of the system calls; the cost of the table does not depend on the number of
 * blocks.
 * Callers: src/cache/, src/debug/, src/stats/.
 */
#ifndef SHEAF_PAGE_MAP_H
#define SHEAF_PAGE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAP_LEAF_BITS 12
/* An entry is 0, a size with this bit, or a distance above it. */
#define MAP_HEAD ((uintptr_t)1)
/* Above this, a freed block is zeroed by the system, each page when it is used: to clear 4 MiB
 * takes as long as a hundred system calls, and makes all of it resident. */
#define MAP_CLEAR_MOST ((size_t)4 << 20)
/* In a first entry: the block is charged to a group, whose number is in the upper half of the
 * entry; of the next entry, if the size needs the upper half. */
#define MAP_OWNED	((uintptr_t)2)
#define MAP_OWNED_BELOW ((uintptr_t)4)
/* The block was freed, or waits for a grace period until it is. */
#define MAP_WAITS ((uintptr_t)8)

struct mapping {
	char *address;
	size_t size; /* bytes, whole pages of the system */
};

/* At least size bytes, zero if that is wanted, aligned to `align` (a power of two) and to OS_HUGE,
 * on this node if possible. NULL: no memory or no addresses. */
void *map_alloc(size_t size, size_t align, unsigned int node, bool zero);
/* A freed block that waits (map_kept.h), with what was in it, of at most twice this size (whole
 * pages); {NULL, 0}: there is none. */
struct mapping map_reuse(size_t size, size_t align, unsigned int node);
/* Zero these whole pages of a block. */
void map_clear(char *from, size_t size);
/*
 * Resize a block, of which the caller is the only user, to whole pages without copying it. If it
 * grows, it moves, aligned as by map_alloc(). NULL: it stays as it is, because there is no memory,
 * it is charged to a group, a tool watches memory, or the system refuses.
 */
void *map_resize(void *address, size_t size, size_t align);
/* The program gives up this block: it belongs to the caller, who frees it. False: it was retired,
 * or none begins at this address. */
bool map_retire(void *address);
/* Was the block that begins at this address retired? False if none does. */
bool map_waits(const void *address);
/* Free a retired block. */
void map_free_retired(void *address);
static inline bool map_free(void *address)
{
	bool retired = map_retire(address);

	if (retired)
		map_free_retired(address);
	return retired;
}

/* The block that contains this address; {NULL, 0} if there is none. */
struct mapping map_find(const void *address);
/* In map_kept.c. Bytes of blocks in use, and of freed ones that wait. */
struct map_usage {
	size_t used, waiting;
};
struct map_usage map_usage(void);
static inline size_t map_bytes(void)
{
	return map_usage().used;
}
static inline size_t map_kept_bytes(void)
{
	return map_usage().waiting;
}

/* The number of the group that the block at this address is charged to (slab/owner.h); 0: none, or
 * no block begins there. To set it, own the block. */
uint32_t map_owner(const void *address);
void map_set_owner(void *address, uint32_t number);
/* A word for the layers above, of the block that begins at this address; NULL: none does. It is 0,
 * unless they stored another number: who frees the block stores 0. */
uint32_t *map_word(const void *address);
/* Call look(data, address, size, number) for each block that has a number. */
typedef void map_look(void *data, const void *address, size_t size, uint32_t number);
void map_for_each_owned(map_look *look, void *data);

#endif
