/* SPDX-License-Identifier: MIT */
/*
 * Inside a node's range (page.c): its chunks, the lists of chunks, the advice for huge pages
 * (huge.c), and the pages that return to the system (discard.c).
 *
 * Callers: src/page/, with the range's lock held, except page_trim_to().
 */
#ifndef SHEAF_PAGE_RANGE_H
#define SHEAF_PAGE_RANGE_H

#include "os/lock.h"
#include "os/machine.h"
#include "page/chunk.h"
#include "page/decay.h"
#include "page/page.h"

#define CHUNK_SLABS (CHUNK_PAGES * sizeof(struct slab))
#define CHUNK_BITS  (CHUNK_PAGES * PAGE_WORDS * sizeof(uint64_t))
#define CHUNK_MARKS (OS_HUGE >> MARK_SHIFT)

/* Chunks by the largest aligned run in them; of free ones, last those that stay because they are
 * locked, and those that are clean. */
#define RANGE_LOCKED (PAGE_MAX_ORDER + 1)
#define RANGE_CLEAN  (RANGE_LOCKED + 1)
#define RANGE_LISTS  (RANGE_CLEAN + 1)

struct range {
	struct os_lock lock;
	uint32_t nr_chunks; /* used so far, from below */
	struct chunk *chunks;
	size_t chunks_committed; /* bytes of the array above */
	struct chunk *lists[RANGE_LISTS];
	size_t used, dirty; /* pages */
	size_t whole;	    /* dirty pages in free chunks */
	size_t returned;    /* to the system so far */
	size_t stuck;	    /* dirty pages that could not go when all were tried */
	struct decay decay; /* of the pages used */
	ptrdiff_t work;	    /* pages that calls may still return, less those beyond: discard.c */
	uint32_t now;	    /* when that was counted, in ms */
	struct {
		size_t committed, used, free;
	} shown;	 /* the last values for show.h; bytes */
	uint32_t cursor; /* the chunk to give parts of back next */
};

extern struct range ranges[OS_MAX_NODES];

static inline size_t range_max_chunks(void)
{
	return (size_t)1 << (pages.range_shift - OS_HUGE_SHIFT);
}

static inline size_t chunk_index(const struct range *range, const struct chunk *chunk)
{
	return (size_t)(range - ranges) * range_max_chunks() + (size_t)(chunk - range->chunks);
}

static inline char *chunk_address(const struct range *range, const struct chunk *chunk)
{
	return pages.base + (chunk_index(range, chunk) << OS_HUGE_SHIFT);
}

static inline struct slab *chunk_slabs(const struct range *range, const struct chunk *chunk)
{
	return pages.slabs + chunk_index(range, chunk) * CHUNK_PAGES;
}

/* Its part of range->whole. */
static inline size_t range_whole_of(const struct chunk *chunk)
{
	return chunk->nr_free == CHUNK_PAGES ? chunk->nr_dirty : 0;
}

/* Put the chunk on the list that fits it now. */
void range_relist(struct range *range, struct chunk *chunk);

/* Clear the descriptors that a run of the whole chunk left (PAGE-P5), before the chunk is not free
 * any more. */
void range_forget_run(struct range *range, struct chunk *chunk);

/*
 * Call these after the range got this chunk, after pages of it were taken, and after some were
 * freed; and then the last one to return the freed run, or all of the chunk, if that is free. The
 * last two release the lock while they return memory.
 */
void range_grown(struct range *range, struct chunk *chunk);
void range_taken(struct range *range, struct chunk *chunk);
void range_given(struct range *range, struct chunk *chunk, unsigned int order);
void range_return(struct range *range, struct chunk *chunk, unsigned int page, unsigned int order);

#endif
