/* SPDX-License-Identifier: MIT */
/*
 * Decides which memory returns to the system, and when, and where huge pages are advised.
 *
 * If parts of a chunk go back, the system must not make a huge page of the chunk again. So such a
 * chunk is advised to have no huge pages, until all of it is free, or all of it is in use. The
 * system has a mapping for each sequence of neighbouring chunks with the same advice, and the
 * number of a process's mappings is limited. The ranges may use a part of that number. Beyond it,
 * the advice for a chunk does not change, and its free pages stay.
 *
 * Invariants
 *  D1. range_splits.now is the number of pairs of neighbouring chunks with different advice. The
 *      system has this many mappings in addition to one for each range. In a forked child there may
 *      be twice as many, because the system does not merge inherited mappings.
 *  D2. Only a new chunk brings range_splits.now beyond the limit.
 */
#include "os/atomic.h"
#include "os/options.h"
#include "page/mark.h"
#include "page/range.h"
#include "page/show.h"

/*
 * The part of a process's mappings that the ranges may use: 16,000 by default, enough to split the
 * chunks of 16 GiB that are freed at random; the program keeps the rest. With half of the mappings:
 * 32 GiB.
 */
#define SPLITS_PART 4

/* With slub_tiny, this part of the bytes that may otherwise stay: 64 KiB of whole chunks, 256 KiB
 * in all. */
#define TINY_PART 64

struct range_splits range_splits;

static size_t larger(size_t one, size_t other)
{
	return one > other ? one : other;
}

static size_t smaller(size_t one, size_t other)
{
	return one < other ? one : other;
}

/* --- huge pages ------------------------------------------------------------------------------- */

size_t range_most_splits(void)
{
	if (!os_load_relaxed(&range_splits.most))
		os_store_relaxed(&range_splits.most, os_mappings_limit() / SPLITS_PART);
	return os_load_relaxed(&range_splits.most);
}

/* The number of neighbours with different advice. */
static unsigned int nr_edges(const struct range *range, const struct chunk *chunk)
{
	const struct chunk *end = range->chunks + range->nr_chunks;

	return (chunk > range->chunks && chunk[-1].advice != chunk->advice) +
	       (chunk + 1 < end && chunk[1].advice != chunk->advice);
}

/* False if this needs a mapping beyond the limit. */
static bool advise(struct range *range, struct chunk *chunk, enum chunk_advice advice)
{
	enum chunk_advice old = chunk->advice;
	unsigned int before = nr_edges(range, chunk), after;

	chunk->advice = advice;
	after = nr_edges(range, chunk);
	if (after > before &&
	    os_load_relaxed(&range_splits.now) + after - before > range_most_splits()) {
		chunk->advice = old;
		return false;
	}
	os_fetch_add_relaxed(&range_splits.now, (size_t)after - before);
	os_advise_huge(chunk_address(range, chunk), OS_HUGE, advice == CHUNK_HUGE);
	return true;
}

void range_grown(struct range *range, struct chunk *chunk)
{
	os_fetch_add_relaxed(&range_splits.now, nr_edges(range, chunk));
	if (range->used << OS_PAGE_SHIFT >= PAGE_HUGE_FROM)
		advise(range, chunk, CHUNK_HUGE);
}

void range_taken(struct range *range, struct chunk *chunk)
{
	range->peak[0] = larger(range->peak[0], range->used);
	if (chunk->nr_free == 0 && chunk->advice == CHUNK_PARTS)
		advise(range, chunk, CHUNK_HUGE);
}

/* The system may give all of the chunk memory again. */
static void make_whole(struct range *range, struct chunk *chunk)
{
	if (!advise(range, chunk, CHUNK_HUGE))
		return;
	range->dirty += CHUNK_PAGES - chunk->nr_dirty;
	chunk_make_dirty(chunk);
}

/* --- returning memory ------------------------------------------------------------------------- */

/* The number of the library's pages in a system page, as a power of two. */
static unsigned int system_order(void)
{
	return (unsigned int)__builtin_ctzll(os.page_size) - OS_PAGE_SHIFT;
}

static unsigned int take_dirty(struct range *range, struct chunk *chunk, unsigned int from,
			       unsigned int *page)
{
	unsigned int dirty = chunk->nr_dirty;
	unsigned int length = chunk_take_dirty(chunk, system_order(), from, page);

	range->dirty -= dirty - chunk->nr_dirty;
	return length;
}

/*
 * Return those of the chunk's dirty pages that the system can take, without the lock meanwhile.
 * Returns how many.
 */
static unsigned int discard_dirty(struct range *range, struct chunk *chunk)
{
	unsigned int page, length, from = 0, given = 0;

	while ((length = take_dirty(range, chunk, from, &page)) != 0) {
		range_relist(range, chunk);
		os_unlock(&range->lock);
		os_discard(chunk_address(range, chunk) + page * OS_PAGE, length * OS_PAGE);
		if (length == CHUNK_PAGES) {
			os_discard(chunk_slabs(range, chunk), CHUNK_SLABS);
			os_discard(page_words(chunk_slabs(range, chunk)), CHUNK_BITS);
			if (pages.marks)
				os_discard(mark_at(chunk_address(range, chunk)), CHUNK_MARKS);
		}
		os_lock(&range->lock);
		chunk_give_clean(chunk, page, length);
		range_relist(range, chunk);
		from = page + length;
		given += length;
	}
	return given;
}

/* True if the chunk's free pages may go while the rest stays. */
static bool may_part(struct range *range, struct chunk *chunk)
{
	return chunk->advice != CHUNK_HUGE || chunk->nr_free == CHUNK_PAGES ||
	       advise(range, chunk, CHUNK_PARTS);
}

/* Dirty pages that may always stay: this number of bytes, or more if page_keep says so. */
static size_t keep_pages(size_t bytes)
{
	if (os_options.tiny)
		bytes /= TINY_PART;
	return larger(bytes, (size_t)os_options.page_keep << 20) >> OS_PAGE_SHIFT;
}

/* Pages that were in use lately and are not now. */
static size_t freed_lately(struct range *range, uint32_t now)
{
	uint32_t passed = now - range->since;

	if (passed >= PAGE_KEEP_MS) {
		range->peak[1] = passed < 2 * PAGE_KEEP_MS ? range->peak[0] : range->used;
		range->peak[0] = range->used;
		range->since = now;
	}
	return larger(range->peak[0], range->peak[1]) - range->used;
}

/*
 * Dirty pages that may stay because programs often soon allocate freed memory again. They become
 * fewer step by step; otherwise one flush of many slabs would return all of them.
 */
static size_t keep_for_return(struct range *range)
{
	uint32_t now = os_now_ms();
	size_t most = os_options.tiny ? 0 : PAGE_KEEP_PEAK / os.nr_nodes,
	       step = PAGE_DISCARD_MAX >> OS_PAGE_SHIFT;
	size_t wanted = smaller(freed_lately(range, now), most >> OS_PAGE_SHIFT);

	if (wanted >= range->kept) {
		range->kept = wanted;
	} else if (++range->frees >= PAGE_DISCARD_FREES ||
		   now - range->lowered >= PAGE_DISCARD_MS) {
		range->kept = larger(wanted, range->kept - smaller(range->kept, step));
		range->lowered = now;
		range->frees = 0;
	}
	return range->kept;
}

/*
 * Return memory until this number of dirty pages is left, but not too much in one call; the next
 * call continues where this one ended. Pages above that number that are left after every chunk was
 * searched cannot be returned, and cause no further search.
 */
static void discard_parts(struct range *range, size_t wanted)
{
	size_t left = PAGE_DISCARD_MAX >> OS_PAGE_SHIFT;

	for (uint32_t n = range->nr_chunks; n > 0 && range->dirty > wanted; n--) {
		struct chunk *chunk = &range->chunks[range->cursor % range->nr_chunks];
		size_t given = 0;

		range->cursor++;
		if (chunk->nr_dirty && may_part(range, chunk))
			given = discard_dirty(range, chunk);
		if (given >= left) {
			range->stuck = 0; /* The next call goes on. */
			return;
		}
		left -= given;
	}
	range->stuck = range->dirty > wanted ? range->dirty : 0;
}

void range_given(struct range *range, struct chunk *chunk)
{
	size_t kept = keep_for_return(range), parts;

	if (chunk->nr_free == CHUNK_PAGES && chunk->advice == CHUNK_PARTS)
		make_whole(range, chunk);
	if (chunk->nr_free == CHUNK_PAGES && range->dirty > kept + keep_pages(PAGE_KEEP_CHUNKS))
		discard_dirty(range, chunk);
	else if (chunk->nr_free == CHUNK_PAGES) /* All of it can go, if parts could not. */
		range->stuck -= smaller(range->stuck, CHUNK_PAGES);
	range->stuck = smaller(range->stuck, range->dirty);
	/* A program that uses much memory soon uses more again. */
	parts = larger(keep_pages(PAGE_KEEP_PARTS), range->used / 4);
	if (range->dirty - range->stuck > kept + parts)
		discard_parts(range, kept + parts / 2);
}

void page_trim(void)
{
	page_free_kept();
	for (uint32_t node = 0; node < os.nr_nodes; node++) {
		struct range *range = &ranges[node];

		os_lock(&range->lock);
		range->kept = 0;
		for (uint32_t i = 0; i < range->nr_chunks; i++) {
			struct chunk *chunk = &range->chunks[i];

			/* A caller that wants all pages returned gets it, even if the system may
			 * undo it. */
			if (chunk->nr_dirty) {
				may_part(range, chunk);
				discard_dirty(range, chunk);
			}
		}
		range_unlock(range);
	}
}
