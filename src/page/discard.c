/* SPDX-License-Identifier: MIT */
/*
 * What goes back to the system, and when; where huge pages are advised.
 *
 * A chunk of which parts go back must not be made whole again behind our back: it gets no huge pages
 * from then on, until all of it is free, or all in use again. The system keeps a mapping for each row of
 * neighbours that are advised alike, and a process may have so many mappings: that is a budget, of which
 * ranges may use a part. Beyond it a chunk stays as it is advised, and its free pages stay.
 *
 * Invariants
 *  D1. range_splits.now is how many pairs of neighbouring chunks are advised differently: so many mappings
 *      more than one a range does the system have for them. What a forked child inherited it does not
 *      merge again, so there it may have twice as many.
 *  D2. Only a new chunk brings range_splits.now beyond the limit.
 */
#include "os/atomic.h"
#include "os/options.h"
#include "page/range.h"
#include "page/show.h"

/* Of the mappings a process may have, so large a part: 16,000 by default, which parts the chunks of 16 GiB that
 * are freed at random; the program has the rest. With half of the mappings for us, 32 GiB. */
#define SPLITS_PART 4

struct range_splits range_splits;

/* --- huge pages ------------------------------------------------------------------------------- */

size_t range_most_splits(void)
{
	if (!os_load_relaxed(&range_splits.most))
		os_store_relaxed(&range_splits.most, os_mappings_limit() / SPLITS_PART);
	return os_load_relaxed(&range_splits.most);
}

/* Neighbours that are advised differently. */
static unsigned int nr_edges(const struct range *range, const struct chunk *chunk)
{
	const struct chunk *end = range->chunks + range->nr_chunks;

	return (chunk > range->chunks && chunk[-1].advice != chunk->advice) +
	       (chunk + 1 < end && chunk[1].advice != chunk->advice);
}

/* False if that would split what may not be split any more. */
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
	if (chunk->nr_free == 0 && chunk->advice == CHUNK_PARTS)
		advise(range, chunk, CHUNK_HUGE);
}

/* The system may bring all of it back. */
static void make_whole(struct range *range, struct chunk *chunk)
{
	if (!advise(range, chunk, CHUNK_HUGE))
		return;
	range->dirty += CHUNK_PAGES - chunk->nr_dirty;
	chunk_make_dirty(chunk);
}

/* --- giving back ------------------------------------------------------------------------------ */

/* A page of the system is so many of ours, as a power of two. */
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

/* Give back what the system can take of the chunk's dirty pages, without the lock while it does. */
static void discard_dirty(struct range *range, struct chunk *chunk)
{
	unsigned int page, length, from = 0;

	while ((length = take_dirty(range, chunk, from, &page)) != 0) {
		range_relist(range, chunk);
		os_unlock(&range->lock);
		os_discard(chunk_address(range, chunk) + page * OS_PAGE, length * OS_PAGE);
		if (length == CHUNK_PAGES) {
			os_discard(chunk_slabs(range, chunk), CHUNK_SLABS);
			os_discard(page_words(chunk_slabs(range, chunk)), CHUNK_BITS);
		}
		os_lock(&range->lock);
		chunk_give_clean(chunk, page, length);
		range_relist(range, chunk);
		from = page + length;
	}
}

/* True if what is free of the chunk may go while the rest stays. */
static bool may_part(struct range *range, struct chunk *chunk)
{
	return chunk->advice != CHUNK_HUGE || chunk->nr_free == CHUNK_PAGES ||
	       advise(range, chunk, CHUNK_PARTS);
}

/* Dirty pages that may stay whatever else: so many bytes, or more if the user asks for it. */
static size_t keep_pages(size_t bytes)
{
	size_t asked = (size_t)os_options.page_keep << 20;

	return (asked > bytes ? asked : bytes) >> OS_PAGE_SHIFT;
}

/* Dirty pages that may stay, beside whole chunks: a program that uses much soon uses them again. */
static size_t may_keep(const struct range *range)
{
	size_t least = keep_pages(PAGE_KEEP_PARTS);

	return range->used / 4 > least ? range->used / 4 : least;
}

/*
 * Down to half of what may stay, going on where the last time ended. What is left above that after a
 * look at every chunk cannot go, and is no reason to look again.
 */
static void discard_parts(struct range *range)
{
	size_t wanted = may_keep(range) / 2;

	for (uint32_t n = range->nr_chunks; n > 0 && range->dirty > wanted; n--) {
		struct chunk *chunk = &range->chunks[range->cursor % range->nr_chunks];

		range->cursor++;
		if (chunk->nr_dirty && may_part(range, chunk))
			discard_dirty(range, chunk);
	}
	range->stuck = range->dirty > wanted ? range->dirty : 0;
}

void range_given(struct range *range, struct chunk *chunk)
{
	if (chunk->nr_free == CHUNK_PAGES && chunk->advice == CHUNK_PARTS)
		make_whole(range, chunk);
	if (range->stuck > range->dirty)
		range->stuck = range->dirty;
	if (chunk->nr_free == CHUNK_PAGES && range->dirty > keep_pages(PAGE_KEEP_CHUNKS))
		discard_dirty(range, chunk);
	else if (range->dirty - range->stuck > may_keep(range))
		discard_parts(range);
}

void page_trim(void)
{
	page_free_kept();
	for (uint32_t node = 0; node < os.nr_nodes; node++) {
		struct range *range = &ranges[node];

		os_lock(&range->lock);
		for (uint32_t i = 0; i < range->nr_chunks; i++) {
			struct chunk *chunk = &range->chunks[i];

			/* Who asks for all gets it, even if the system may undo it. */
			if (chunk->nr_dirty) {
				may_part(range, chunk);
				discard_dirty(range, chunk);
			}
		}
		range_unlock(range);
	}
}
