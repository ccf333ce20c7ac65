/* SPDX-License-Identifier: MIT */
/*
 * Memory for the library's own structures: sheaves, caches, node lists (docs/design.md, R7: they
 * own no sheaves, so nothing here recurses).
 *
 * With slab_guard_pools, their pages are away from those of objects, between inaccessible pages, so
 * that a write beyond an object does not reach them. Without it, or if the system has no addresses
 * for that, the pages come from page.h.
 *
 * Blocks of 64, 128, ... 2048 bytes are carved from pages, each for one size, so that those which a
 * fork or a walk touches are close together; but all sizes share the first page, which is enough
 * for a small program. Larger blocks are page runs. Each node has a list for each size, of blocks
 * in its own memory: a block that another node's CPU frees goes back there, and a CPU gets blocks
 * of its own node while there are any. Freed blocks stay in the pool, so that a section which is
 * about to be aborted may still read a sheaf that was returned (it cannot store to it). Only blocks
 * that no section reads, and whose size the program chooses, give their pages back. Of these, one
 * above 2 MiB is a mapping (map.h), retired from the beginning: no call of the program frees it.
 *
 * Locks: OS_RANK_POOL, one for each node. Callers: src/slab/, src/percpu/, src/cache/.
 */
#ifndef SHEAF_PAGE_POOL_H
#define SHEAF_PAGE_POOL_H

#include <stddef.h>

/* Zeroed, aligned to 64 bytes; above 2 MiB only for pool_give_back(). NULL: there is no memory. */
void *pool_alloc(size_t size);
/* As pool_alloc(), of at most 2 MiB and without waiting: from this node's list of its size, if no
 * other thread changes its lists. */
void *pool_alloc_try(size_t size);
/* size: as it was passed to pool_alloc(). NULL is allowed. */
void pool_free(void *block, size_t size);
/* Frees a block that no other thread can still read: its pages, if it has whole ones, are free
 * for other uses. */
void pool_give_back(void *block, size_t size);

#endif
