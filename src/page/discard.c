/* SPDX-License-Identifier: MIT */
/*
 * Memory that returns to the system: when pages are freed, as time passes, and when the program
 * trims. keep.c says how much may stay, huge.c which chunks may lose a part.
 */
#include "os/atomic.h"
#include "os/options/options.h"
#include "page/map_kept.h"
#include "page/range.h"

/*
 * Work is counted in pages that return one by one. A call of the system costs as much as some
 * pages; the first part of a chunk that is returned breaks a huge page; a whole chunk costs less
 * than its pages. A call may do STEP, more if the last one was some time ago, and one for each page
 * that was freed beyond the limit, up to MOST_WORK, which is PAGE_DISCARD_MAX in whole chunks.
 */
#define STEP	   4096
#define MOST_WORK  (2 * STEP)
#define WHOLE_WORK (MOST_WORK / (ptrdiff_t)(PAGE_DISCARD_MAX >> OS_HUGE_SHIFT))
#define CALL_WORK  8

/* The number of the library's pages in a system page, as a power of two. */
static unsigned int system_order(void)
{
	return (unsigned int)__builtin_ctzll(os.page_size) - OS_PAGE_SHIFT;
}

static unsigned int take_dirty(struct range *range, struct chunk *chunk, unsigned int from,
			       unsigned int end, unsigned int *page, unsigned int *dirty)
{
	size_t whole = range_whole_of(chunk);
	unsigned int before = chunk->nr_dirty;
	unsigned int length = chunk_take_dirty(chunk, system_order(), from, end, page);

	*dirty = before - chunk->nr_dirty;
	range_count_dirty(range, -(ptrdiff_t)*dirty);
	range->whole += range_whole_of(chunk) - whole;
	return length;
}

static void discard_tables(struct range *range, struct chunk *chunk, bool locked)
{
	os_discard(chunk_slabs(range, chunk), CHUNK_SLABS, locked);
	os_discard(page_words(chunk_slabs(range, chunk)), CHUNK_BITS, locked);
	if (pages.marks)
		os_discard(mark_at(chunk_address(range, chunk)), CHUNK_MARKS, locked);
}

/* A run that take_dirty() took is free again. */
static void give_taken(struct range *range, struct chunk *chunk, unsigned int page,
		       unsigned int length, bool gone)
{
	chunk_give_taken(chunk, page, length, gone);
	range->whole += range_whole_of(chunk);
	range_relist(range, chunk);
	if (gone) {
		range->returned += length;
		range->work -= length == CHUNK_PAGES ? WHOLE_WORK : length + CALL_WORK;
	} else {
		page_hold_anyway(length);
		range_count_dirty(range, length);
		range->work -= CALL_WORK;
	}
}

/*
 * Return those of the chunk's dirty pages in this part that the system can take, without the lock
 * meanwhile; locked ones only if the caller says so. Returns how many.
 */
static unsigned int discard_between(struct range *range, struct chunk *chunk, unsigned int from,
				    unsigned int end, bool locked)
{
	unsigned int page, length, dirty, given = 0;
	bool gone = true;

	while (gone && (length = take_dirty(range, chunk, from, end, &page, &dirty)) != 0) {
		uint32_t *returning = page_begin_return();

		range_relist(range, chunk);
		os_unlock(&range->lock);
		gone = os_discard(chunk_address(range, chunk) + page * OS_PAGE, length * OS_PAGE,
				  locked);
		if (gone && length == CHUNK_PAGES)
			discard_tables(range, chunk, locked);
		os_lock(&range->lock);
		page_hold_less(dirty);
		give_taken(range, chunk, page, length, gone);
		page_end_return(returning);
		from = page + length;
		given += gone ? length : 0;
	}
	return given;
}

static unsigned int discard_dirty(struct range *range, struct chunk *chunk, bool locked)
{
	return discard_between(range, chunk, 0, CHUNK_PAGES, locked);
}

void range_return(struct range *range, struct chunk *chunk, unsigned int page, unsigned int order)
{
	unsigned int system_pages = 1u << system_order(), end = page + (1u << order);

	if (chunk->nr_free == CHUNK_PAGES) {
		discard_dirty(range, chunk, true);
		return;
	}
	/* As in trim_range(), whatever the answer. */
	huge_may_part(range, chunk);
	discard_between(range, chunk, page & ~(system_pages - 1),
			(end + system_pages - 1) & ~(system_pages - 1), true);
}

/* At this time; `freed` pages may go in addition. */
static void allow_work(struct range *range, uint32_t now, size_t freed)
{
	uint32_t passed = now - range->now;

	if (passed && range->work < STEP)
		range->work = STEP;
	range->now = now;
	range->work += (ptrdiff_t)freed;
	if (range->work > MOST_WORK || passed >= DECAY_TICK_MS)
		range->work = MOST_WORK;
}

/* The time that this call spent on returning memory allows no more work: else a slow system would
 * let it go on and on. */
static void end_work(struct range *range, ptrdiff_t before)
{
	if (range->work != before)
		range->now = os_now_ms();
}

/*
 * Return free chunks, those that were freed last first, until this number of dirty pages is left,
 * as far as there is work.
 */
static void discard_whole(struct range *range, size_t wanted, bool locked)
{
	/* Each turn takes one chunk off these lists, where other threads may put new ones, unless
	 * the system refuses it even so. */
	for (ptrdiff_t turns = MOST_WORK / WHOLE_WORK;
	     turns > 0 && range->dirty > wanted && range->work > 0; turns--) {
		struct chunk *chunk = range->lists[PAGE_MAX_ORDER];

		if (!chunk && locked)
			chunk = range->lists[RANGE_LOCKED];
		if (!chunk)
			break;
		/* It may be on the list for larger runs than it has left. */
		range_relist(range, chunk);
		if (chunk->nr_free == CHUNK_PAGES)
			discard_dirty(range, chunk, locked);
	}
}

/*
 * Return parts of chunks until this number of dirty pages is left, but not too much in one call;
 * the next call continues where this one ended. Pages above that number that are left after every
 * chunk was searched cannot be returned, and cause no further search.
 */
static void discard_parts(struct range *range, size_t wanted, bool locked)
{
	for (uint32_t n = range->nr_chunks; n > 0 && range->dirty > wanted; n--) {
		struct chunk *chunk = range_chunk(range, range->cursor % range->nr_chunks);

		if (range->work <= 0) {
			range->stuck = 0; /* The next call goes on. */
			return;
		}
		range->cursor++;
		if (chunk->nr_dirty && (locked || !chunk->locked) && huge_may_part(range, chunk))
			discard_dirty(range, chunk, locked);
	}
	range->stuck = range->dirty > wanted ? range->dirty : 0;
}

/* Parts return only if more than may stay is left without whole chunks, and then half of the bound
 * with them: not a huge page for each free. */
static void discard_surplus(struct range *range, size_t kept)
{
	bool locked = page_is_above_soft();

	range->stuck = smaller(range->stuck, range->dirty);
	discard_whole(range, locked ? 0 : kept + range->stuck, locked);
	if (range->dirty - range->stuck > kept)
		discard_parts(range, kept - smaller(kept, keep_bound(range)) / 2, locked);
}

void range_given(struct range *range, struct chunk *chunk, unsigned int order)
{
	uint32_t now = os_now_ms();
	size_t kept = keep_pages(range, now, (size_t)1 << order);
	ptrdiff_t before;

	/* All of it can go, if parts could not. (A run that was not touched may be clean.) */
	if (chunk->nr_free == CHUNK_PAGES)
		range->stuck -= smaller(range->stuck,
					chunk->nr_dirty - smaller(chunk->nr_dirty, 1u << order));
	if (chunk->nr_free == CHUNK_PAGES && chunk->advice == CHUNK_PARTS)
		huge_whole_again(range, chunk);
	if (os_load_relaxed(&decay_time.by_thread))
		return;
	allow_work(range, now, range->dirty > kept ? (size_t)1 << order : 0);
	before = range->work;
	discard_surplus(range, kept);
	end_work(range, before);
}

bool page_decay(unsigned int node)
{
	struct range *range = &ranges[node];
	bool more;
	ptrdiff_t before;
	size_t kept;
	uint32_t now;

	if (!os_trylock(&range->lock))
		return true;
	/* With the lock, so that no free has seen a later time: the parts would begin again. */
	now = os_now_ms();
	kept = keep_pages(range, now, 0);
	range->work = before = MOST_WORK;
	range->now = now;
	discard_surplus(range, kept);
	more = range->work <= 0; /* or the last piece took all the work that was left */
	if (more)
		os_store_relaxed(&decay_time.left, 1);
	end_work(range, before);
	/* Some stay only because they were in use recently. */
	more |= kept > keep_bound(range) && !os_load_relaxed(&os_options.decay_never);
	range_unlock(range);
	return map_decay(node, now) | more;
}

/* Return `wanted` dirty pages, if there are that many, step by step: of free chunks, or of all.
 * Returns how many. A caller that wants all pages returned gets it, even if the system may undo
 * it. */
static size_t trim_range(struct range *range, size_t wanted, bool parts)
{
	size_t given = 0;
	uint32_t i = 0;
	bool more;

	do {
		os_lock(&range->lock);
		range->work = STEP;
		for (; i < range->nr_chunks && range->work > 0 && given < wanted; i++) {
			struct chunk *chunk = range_chunk(range, i);

			range->work--;
			if (!chunk->nr_dirty || !(parts || chunk->nr_free == CHUNK_PAGES))
				continue;
			/* Its pages may be such that none can go. */
			range->work -= CALL_WORK;
			huge_may_part(range, chunk);
			given += discard_dirty(range, chunk, true);
		}
		more = i < range->nr_chunks;
		range_unlock(range);
	} while (more && given < wanted);
	return given;
}

void page_trim_to(size_t keep)
{
	size_t dirty = page_usage().dirty, left;

	/* What stays is whole pages. */
	left = (dirty - smaller(dirty, keep & ~(OS_PAGE - 1))) >> OS_PAGE_SHIFT;
	left -= smaller(left, map_trim(left << OS_PAGE_SHIFT) >> OS_PAGE_SHIFT);
	for (uint32_t node = 0; node < os.nr_nodes && left; node++)
		left -= smaller(left, trim_range(&ranges[node], left, false));
	for (uint32_t node = 0; node < os.nr_nodes && left; node++)
		left -= smaller(left, trim_range(&ranges[node], left, true));
	for (uint32_t node = 0; node < os.nr_nodes; node++)
		keep_forget_peak(&ranges[node]);
}
