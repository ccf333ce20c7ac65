/* SPDX-License-Identifier: MIT */
/*
 * Where the system is advised to make huge pages of a node's chunks.
 *
 * If parts of a chunk are returned, the system must not make a huge page of the chunk again. So
 * such a chunk is advised to have no huge pages, until all of it is free, or all of it is in use.
 * The system has a mapping for each sequence of neighbouring chunks with the same advice, and the
 * number of a process's mappings is limited. The ranges may use a part of that number. Beyond it,
 * the advice for a chunk does not change, and its free pages stay.
 *
 * Invariants
 *  HUGE-D1. huge_splits.now is the number of pairs of neighbouring chunks with different advice.
 *      The system has this many mappings in addition to one for each range. In a forked child there
 *      may be twice as many, because the system does not merge inherited mappings.
 *  HUGE-D2. Only a new chunk brings huge_splits.now beyond the limit, or two nodes' ranges that
 *      split chunks at the same moment.
 *
 * Locks: the range's, held by the caller. Callers: src/page/discard.c; range_grown() and
 * range_taken() are declared in range.h for page.c.
 */
#ifndef SHEAF_PAGE_HUGE_H
#define SHEAF_PAGE_HUGE_H

#include "page/range.h"

/* The number of mappings beyond one for each range, and how many there may be. */
struct huge_splits {
	size_t now, most; /* most: 0 until it is needed */
};
extern struct huge_splits huge_splits;
size_t huge_most_splits(void);

/* The first part of a chunk that goes breaks a huge page: what that costs, in pages (discard.c). */
#define HUGE_SPLIT_WORK 128

/* The chunk is free again: the system may give all of it memory. */
void huge_whole_again(struct range *range, struct chunk *chunk);
/* True if the chunk's free pages may go while the rest stays. */
bool huge_may_part(struct range *range, struct chunk *chunk);

#endif
