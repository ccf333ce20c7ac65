/* SPDX-License-Identifier: MIT */
/*
 * The amounts of memory that the process has, where other processes can read them
 * (os/process_words.h). Does nothing unless events are counted.
 *
 * Invariants
 *  SHOW-W1. used_bytes, free_bytes and committed_bytes are right whenever no range's lock is held.
 *  SHOW-W2. peak_bytes is the largest sum of used_bytes and mapped_bytes that a thread found after
 *      it changed one of them.
 *
 * Callers: src/page/.
 */
#ifndef SHEAF_PAGE_SHOW_H
#define SHEAF_PAGE_SHOW_H

#include "os/assert.h"
#include "os/compiler.h"
#include "page/limit.h"
#include "page/range.h"

/* With the range's lock held. */
void show_range(struct range *range);
/* What map_usage() returns has changed. */
void show_mapped(void);

/* After the range changed. */
static inline void range_unlock(struct range *range)
{
	/* PAGE-P1: there are no more pages than in chunks; LIMIT-H1 */
	os_assert(range->whole <= range->dirty &&
		  range->used + range->dirty <= (size_t)range->nr_chunks * CHUNK_PAGES &&
		  os_peek(&page_limit.held) >= range->used + range->dirty);
	if (os_unlikely(os.counting))
		show_range(range);
	os_unlock(&range->lock);
}

#endif
