/* SPDX-License-Identifier: MIT */
/*
 * Marks: a byte for each 16 bytes of the ranges, which says whether the object that begins there is
 * free. They exist only with slab_check_double, in a table of their own, out of reach of objects:
 *
 *   addresses  | object        | object        | object        | ...     of 24 bytes
 *   marks      | F0 . | F8 . . | F0 . | ...                              . : no object begins here
 *
 * The lower bits of a mark are those of its object's address. So one comparison tells an object in
 * use from a free one, and from every other address: inside an object, behind the last one, in a
 * run.
 *
 * Invariants
 *  K1. Objects of marked caches are at least MARK_BYTES apart, so no two share a mark.
 *  K2. A slab's marks are written when it is made: pages without one may have marks of the last.
 *      Who reads a mark knows that the page belongs to a slab.
 *  K3. Plain loads and stores: of two threads that free an object at the same moment, both may find
 *      it in use. Whoever owns an object may rely on its mark.
 *
 * Locks: none. Callers: src/slab/take.c for new slabs; src/cache/hardened.c.
 */
#ifndef SHEAF_PAGE_MARK_H
#define SHEAF_PAGE_MARK_H

#include "os/atomic.h"
#include "page/page.h"

#define MARK_SHIFT 4
#define MARK_BYTES (1u << MARK_SHIFT)

/* The upper bits of a mark. */
#define MARK_FREE  0x40u /* in a sheaf or in its slab */
#define MARK_USED  0x80u /* with the program */
#define MARK_WAITS 0xc0u /* retired, until its grace period has passed */

static inline uint8_t *mark_at(const void *address)
{
	return pages.marks + (((uintptr_t)address - (uintptr_t)pages.base) >> MARK_SHIFT);
}

/* The mark of an object that begins at this address. */
static inline uint8_t mark_of(const void *address, unsigned int state)
{
	return (uint8_t)(state | ((uintptr_t)address & (MARK_BYTES - 1)));
}

static inline void mark(const void *address, unsigned int state)
{
	os_store_relaxed(mark_at(address), mark_of(address, state));
}

static inline bool mark_is(const void *address, unsigned int state)
{
	return os_load_relaxed(mark_at(address)) == mark_of(address, state);
}

#endif
