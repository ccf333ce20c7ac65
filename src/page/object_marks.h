/* SPDX-License-Identifier: MIT */
/*
 * Marks: a byte for each 16 bytes of the ranges. The byte at an object's first address says whether
 * the object is free. Marks exist only with slab_check_double, in a table of their own, where a
 * write beyond an object does not reach them:
 *
 *   addresses  | object        | object        | object        | ...     of 24 bytes
 *   marks      | F0 . | F8 . . | F0 . | ...                              . : no object begins here
 *
 * The lower bits of a mark are the lower bits of its object's address. So one comparison tells a
 * used object from a free one and from every other address: one inside an object, one after the
 * last object, or one in a page run.
 *
 * Invariants
 *  MARK-K1. Objects of marked caches are at least MARK_BYTES apart, so no two share a mark.
 *  MARK-K2. A slab's marks are written when it is made. The marks of other pages are left over from
 *      an earlier slab: read a mark only of a page that belongs to a slab.
 *  MARK-K3. Marks are read and written by plain loads and stores. If two threads free an object at
 *      the same moment, both may find it used. The owner of an object may rely on its mark. Argued:
 *      that race is the program's.
 *
 * Locks: none. Callers: src/slab/pages.c for new slabs; src/cache/hardened.c.
 */
#ifndef SHEAF_PAGE_OBJECT_MARKS_H
#define SHEAF_PAGE_OBJECT_MARKS_H

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
