/* SPDX-License-Identifier: MIT */
/*
 * Freed mappings that stay for a while, because a new one costs system calls and a page fault for
 * each page.
 *
 *   cells of a node   | 0 | number of its 2 MiB, size, when it was freed | 0 | ...
 *
 * A request takes the smallest block that is large enough, up to twice its size, and gets all of
 * it: to unmap the rest would cost a system call, and page faults when the next block grows. If
 * there is none, it takes the largest one of at least half its size, and new memory behind it. The
 * oldest block is unmapped if all cells are full, or if there is no room for all: keep.c. The sizes
 * are in the cells: there is no other count, so that a pair of calls changes a cell twice and
 * nothing else that threads share.
 *
 * Invariants
 *  MAP_KEPT-J1. A block in a cell is not in the table of map.h, but its memory is usable and held
 *      (limit.h). Only the thread that exchanges its cell for 0 may use or unmap it.
 *  MAP_KEPT-J2. Nothing stays while a tool watches memory, or with an option against uses of freed
 *      memory (init_on_free, slab_check_double).
 *
 * Locks: none. Callers: src/page/.
 */
#ifndef SHEAF_PAGE_MAP_KEPT_H
#define SHEAF_PAGE_MAP_KEPT_H

#include "page/map.h"

/* Double: one block may be half of what may wait. */
#define MAP_KEPT_MOST ((size_t)64 << 20)

/* The smallest block of this node with at least this size, at most twice as much, and this
 * alignment; smaller: the largest one of at most this size, and of at least half of it. {NULL, 0}:
 * there is none. */
struct mapping map_take_kept(size_t size, size_t align, unsigned int node, bool smaller);
/* Keep a block that is no longer in use; an older one may be unmapped for it. False: the block must
 * be unmapped itself. */
bool map_keep(struct mapping block, unsigned int node);
/* In map.c. */
void map_unmap(struct mapping block, unsigned int node);

/* Unmap the oldest blocks of this node while there is no room for all, PAGE_DISCARD_MAX or one
 * block. True: there is more to unmap. */
bool map_decay(unsigned int node, uint32_t now);
/* Unmap blocks until this many bytes were returned, or none is left. Returns these bytes. */
size_t map_trim(size_t bytes);
/* Bytes that wait on a node, and bytes returned to the system so far. */
size_t map_kept_of(unsigned int node);
size_t map_returned_bytes(void);

#endif
