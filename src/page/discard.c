/* SPDX-License-Identifier: MIT */
/* What goes back to the system, and when. */
#include "os/options.h"
#include "page/range.h"

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
		if (length == CHUNK_PAGES)
			os_discard(chunk_slabs(range, chunk), CHUNK_SLABS);
		os_lock(&range->lock);
		chunk_give_clean(chunk, page, length);
		range_relist(range, chunk);
		from = page + length;
	}
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

/* A huge page that goes back in parts must not be made whole again behind our back. */
static void discard_parts_of(struct range *range, struct chunk *chunk)
{
	if (chunk->huge && chunk->nr_free < CHUNK_PAGES) {
		chunk->huge = false;
		os_advise_huge(chunk_address(range, chunk), OS_HUGE, false);
	}
	discard_dirty(range, chunk);
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
		if (chunk->nr_dirty)
			discard_parts_of(range, chunk);
	}
	range->stuck = range->dirty > wanted ? range->dirty : 0;
}

void range_given(struct range *range, struct chunk *chunk)
{
	if (range->stuck > range->dirty)
		range->stuck = range->dirty;
	if (chunk->nr_free == CHUNK_PAGES && range->dirty > keep_pages(PAGE_KEEP_CHUNKS))
		discard_dirty(range, chunk);
	else if (range->dirty - range->stuck > may_keep(range))
		discard_parts(range);
}

void page_trim(void)
{
	for (uint32_t node = 0; node < os.nr_nodes; node++) {
		struct range *range = &ranges[node];

		os_lock(&range->lock);
		for (uint32_t i = 0; i < range->nr_chunks; i++)
			if (range->chunks[i].nr_dirty)
				discard_dirty(range, &range->chunks[i]);
		os_unlock(&range->lock);
	}
}
