/* SPDX-License-Identifier: MIT */
/*
 * How many free pages of a node may stay (PAGE-P4), in pages that were used since the system
 * gave them ("dirty"). Above the soft limit, none.
 *
 * Locks: the range's, held by the caller, except keep_most(). Callers: src/page/.
 */
#ifndef SHEAF_PAGE_KEEP_H
#define SHEAF_PAGE_KEEP_H

#include "page/range.h"

static inline size_t smaller(size_t one, size_t other)
{
	return one < other ? one : other;
}

/* The most that may stay because it was recently in use, once the higher limit has ended. */
size_t keep_most(void);
/* What may stay because programs often soon allocate freed memory again; `freed` pages are free
 * since this call. */
size_t keep_for_return(struct range *range, uint32_t now, size_t freed);
/* What may stay in parts of chunks, `always` bytes at least: a program that uses much memory soon
 * uses more again, and huge pages are worth more to it than their free parts. */
size_t keep_parts(const struct range *range, size_t always);
/* What may stay before whole chunks go: what may stay in parts is in addition. */
size_t keep_whole(const struct range *range, size_t kept, size_t parts);

#endif
