/* SPDX-License-Identifier: MIT */
/* Where the system is advised to make huge pages; see range.h. */
#include "page/range.h"

#include "os/atomic.h"
#include "os/memory.h"

/*
 * The part of a process's mappings that the ranges may use: 16,000 by default, enough to split the
 * chunks of 16 GiB that are freed at random; the program keeps the rest. With half of the mappings:
 * 32 GiB.
 */
#define SPLITS_PART 4

struct huge_splits huge_splits;

size_t huge_most_splits(void)
{
	if (!os_load_relaxed(&huge_splits.most))
		os_store_relaxed(&huge_splits.most, os_mappings_limit() / SPLITS_PART);
	return os_load_relaxed(&huge_splits.most);
}

/* The number of neighbours with different advice. */
static unsigned int nr_edges(const struct range *range, const struct chunk *chunk)
{
	const struct chunk *last = range_chunk(range, range->nr_chunks - 1);

	return (chunk < range->chunks && chunk[1].advice != chunk->advice) +
	       (chunk > last && chunk[-1].advice != chunk->advice);
}

/* False if this needs a mapping beyond the limit. */
static bool advise(struct range *range, struct chunk *chunk, enum chunk_advice advice)
{
	enum chunk_advice old = chunk->advice;
	unsigned int before = nr_edges(range, chunk), after;

	chunk->advice = advice;
	after = nr_edges(range, chunk);
	if (after > before &&
	    os_load_relaxed(&huge_splits.now) + after - before > huge_most_splits()) {
		chunk->advice = old;
		return false;
	}
	os_fetch_add_relaxed(&huge_splits.now, (size_t)after - before);
	os_advise_huge(chunk_address(range, chunk), OS_HUGE, advice == CHUNK_HUGE);
	return true;
}

void range_grown(struct range *range, struct chunk *chunk)
{
	os_fetch_add_relaxed(&huge_splits.now, nr_edges(range, chunk));
	if (range->used << OS_PAGE_SHIFT >= PAGE_HUGE_FROM)
		advise(range, chunk, CHUNK_HUGE);
}

void range_taken(struct range *range, struct chunk *chunk)
{
	if (chunk->nr_free == 0 && chunk->advice == CHUNK_PARTS)
		advise(range, chunk, CHUNK_HUGE);
}

void huge_whole_again(struct range *range, struct chunk *chunk)
{
	if (!advise(range, chunk, CHUNK_HUGE))
		return;
	/* LIMIT-H1: what is held, dirty and whole grows by the same pages. */
	os_assert(chunk->nr_free == CHUNK_PAGES);
	page_hold_anyway(CHUNK_PAGES - chunk->nr_dirty);
	range_count_dirty(range, CHUNK_PAGES - chunk->nr_dirty);
	range->whole += CHUNK_PAGES - chunk->nr_dirty;
	chunk_make_dirty(chunk);
}

bool huge_may_part(struct range *range, struct chunk *chunk)
{
	if (chunk->advice != CHUNK_HUGE || chunk->nr_free == CHUNK_PAGES)
		return true;
	if (!advise(range, chunk, CHUNK_PARTS))
		return false;
	range->work -= HUGE_SPLIT_WORK;
	return true;
}
