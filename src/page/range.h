/* SPDX-License-Identifier: MIT */
/*
 * Inside a node's range: its addresses (reserve.c), chunks and lists of chunks (page.c), the advice
 * for huge pages (huge.c), how many free pages stay (keep.c), the pages that return to the system
 * (discard.c), and the node's pool (pool.c), so that both begin in one page.
 *
 * Callers: src/page/, with the range's lock held.
 */
#ifndef SHEAF_PAGE_RANGE_H
#define SHEAF_PAGE_RANGE_H

#include "os/assert.h"
#include "os/compiler.h"
#include "os/lock.h"
#include "os/machine.h"
#include "page/chunk.h"
#include "page/decay.h"
#include "page/limit.h"
#include "page/object_marks.h"
#include "page/page.h"

#define CHUNK_SLABS (CHUNK_PAGES * sizeof(struct slab))
#define CHUNK_BITS  (CHUNK_PAGES * PAGE_WORDS * sizeof(uint64_t))
#define CHUNK_MARKS (OS_HUGE >> MARK_SHIFT)

/* Chunks by the largest aligned run in them; of free ones, last those that stay because they are
 * locked, and those that are clean. */
#define RANGE_LOCKED (PAGE_MAX_ORDER + 1)
#define RANGE_CLEAN  (RANGE_LOCKED + 1)
#define RANGE_LISTS  (RANGE_CLEAN + 1)

#define POOL_SIZES 16 /* 64 bytes to 2 MiB */

/* Free blocks of a node: pool.c. */
struct pool {
	struct os_lock lock;
	struct pool_block *free[POOL_SIZES];
	char *rest; /* of the page that all sizes share: `left` bytes */
	size_t left;
	char *area; /* with slab_guard_pools: for runs, `area_left` bytes */
	size_t area_left;
} __attribute__((aligned(64)));

/* Each in one page. */
struct range {
	struct os_lock lock;
	uint32_t nr_chunks;	 /* used so far, from below */
	bool words;		 /* theirs are usable */
	struct chunk *chunks;	 /* the first one; the others are below it */
	size_t chunks_committed; /* bytes of them */
	struct chunk *lists[RANGE_LISTS];
	size_t used, dirty; /* pages */
	size_t whole;	    /* dirty pages in free chunks */
	size_t returned;    /* to the system so far */
	size_t stuck;	    /* dirty pages that could not go when all were tried */
	struct decay decay; /* of what was in use, also in mappings; pages */
	size_t peak;	/* the result of that; read without the lock, as `used` and `dirty` are */
	size_t seen;	/* the most that was in use since, as freed mappings saw it */
	ptrdiff_t work; /* pages that calls may still return, less those beyond: discard.c */
	uint32_t now;	/* when that was counted, in ms */
	struct {
		size_t committed, used, free;
	} shown;	 /* the last values of show.c; bytes */
	size_t mapped;	 /* bytes of mappings, in use and not */
	uint32_t cursor; /* the chunk to give parts of back next */
	uint32_t wide; /* the chunk from which free neighbours are looked for; any thread stores */
	struct pool pool;
} __attribute__((aligned(1024)));

extern struct range ranges[OS_MAX_NODES];

static inline size_t range_max_chunks(void)
{
	return (size_t)1 << (pages.range_shift - OS_HUGE_SHIFT);
}

static inline struct chunk *range_chunk(const struct range *range, size_t i)
{
	return range->chunks - i;
}

static inline size_t chunk_index(const struct range *range, const struct chunk *chunk)
{
	return (size_t)(range - ranges) * range_max_chunks() + (size_t)(range->chunks - chunk);
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

static inline void range_count_dirty(struct range *range, ptrdiff_t pages)
{
	os_store_relaxed(&range->dirty, range->dirty + (size_t)pages);
}

/* Put the chunk on the list that fits it now. */
void range_relist(struct range *range, struct chunk *chunk);

/* --- reserve.c -------------------------------------------------------------------------------- */

/* The next unused chunk, made usable, on no list; NULL: the range is full, or the system has no
 * memory. */
struct chunk *range_grow(struct range *range);

/* --- discard.c -------------------------------------------------------------------------------- */

/*
 * Call the first after pages were freed; and then the second to return the freed run, or all of the
 * chunk, if that is free. Both release the lock while they return memory.
 */
void range_given(struct range *range, struct chunk *chunk, unsigned int order);
void range_return(struct range *range, struct chunk *chunk, unsigned int page, unsigned int order);

/*
 * --- huge.c: where the system is advised to make huge pages -------------------------------------
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
 */

/* The number of mappings beyond one for each range, and how many there may be. */
struct huge_splits {
	size_t now, most; /* most: 0 until it is needed */
};
extern struct huge_splits huge_splits;
size_t huge_most_splits(void);

/* The first part of a chunk that goes breaks a huge page: what that costs, in pages (discard.c). */
#define HUGE_SPLIT_WORK 128

/* The range got this chunk; pages of it were taken. */
void range_grown(struct range *range, struct chunk *chunk);
void range_taken(struct range *range, struct chunk *chunk);
/* The chunk is free again: the system may give all of it memory. */
void huge_whole_again(struct range *range, struct chunk *chunk);
/* True if the chunk's free pages may go while the rest stays. */
bool huge_may_part(struct range *range, struct chunk *chunk);

/*
 * --- keep.c: how much free memory of a node may stay (PAGE-P4) ----------------------------------
 *
 * In pages: free ones that were used since the system gave them ("dirty"), and freed mappings.
 * Above the soft limit, none.
 */

static inline size_t smaller(size_t one, size_t other)
{
	return one < other ? one : other;
}

/* How many dirty pages may stay now; `freed` more were in use until now. */
size_t keep_pages(struct range *range, uint32_t now, size_t freed);
/* The bytes of mappings that may wait, beside the dirty pages, if this many of those in use will
 * wait; SIZE_MAX: all. Needs no lock. */
size_t keep_mapped(struct range *range, size_t freed);
/* What of the last keep_pages() may stay even if it was not in use recently. */
size_t keep_bound(const struct range *range);
/* What was in use before no longer counts; what is free now goes by time. Takes the lock. */
void keep_forget_peak(struct range *range);

/*
 * --- show.c: amounts of memory, where other processes can read them (os/counters.h) --------
 *
 * Does nothing unless events are counted.
 *
 * Invariants
 *  SHOW-W1. used_bytes, free_bytes and committed_bytes are right whenever no range's lock is held,
 *      and no thread takes or frees a sample.
 *  SHOW-W2. peak_bytes is the largest sum of used_bytes and mapped_bytes that a thread found after
 *      it changed one of them.
 */

void show_range(struct range *range);
void show_mapped_now(void);
/* What map_usage() returns has changed. Needs no lock. */
static inline void show_mapped(void)
{
	if (os_unlikely(os.counting))
		show_mapped_now();
}

/* Bytes that samples hold now, or, as a negative number, no longer. Needs no lock. */
void show_samples_now(size_t bytes);
static inline void show_samples(size_t bytes)
{
	if (os_unlikely(os.counting))
		show_samples_now(bytes);
}

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
