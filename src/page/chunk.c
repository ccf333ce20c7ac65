/* SPDX-License-Identifier: MIT */
/* Bitmaps of a chunk's pages; see chunk.h. */
#include "page/chunk.h"

#include <string.h>

#include "os/assert.h"

/* Bits at which an aligned run of 2^order free pages begins, order <= 6, within one word. */
static uint64_t runs_in_word(uint64_t word, unsigned int order)
{
	static const uint64_t aligned[] = {
		~UINT64_C(0),
		UINT64_C(0x5555555555555555),
		UINT64_C(0x1111111111111111),
		UINT64_C(0x0101010101010101),
		UINT64_C(0x0001000100010001),
		UINT64_C(0x0000000100000001),
		UINT64_C(1),
	};

	for (unsigned int k = 0; k < order; k++)
		word &= word >> (1u << k);
	return word & aligned[order];
}

static bool words_full(const uint64_t *words, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (~words[i])
			return false;
	return true;
}

void chunk_init(struct chunk *chunk)
{
	memset(chunk->free, 0xff, sizeof(chunk->free));
	memset(chunk->dirty, 0, sizeof(chunk->dirty));
	chunk->nr_free = CHUNK_PAGES;
	chunk->nr_dirty = 0;
	chunk->list = -1;
	chunk->locked = false;
}

/* First page of an aligned run whose bits are all set, or -1. */
static int find_run(const uint64_t *words, unsigned int order)
{
	if (order <= 6) {
		for (unsigned int i = 0; i < CHUNK_WORDS; i++) {
			uint64_t runs = runs_in_word(words[i], order);

			if (runs)
				return (int)(i * 64) + __builtin_ctzll(runs);
		}
		return -1;
	}
	for (unsigned int i = 0, n = 1u << (order - 6); i < CHUNK_WORDS; i += n)
		if (words_full(&words[i], n))
			return (int)(i * 64);
	return -1;
}

int chunk_largest(const struct chunk *chunk)
{
	int order = 8;

	if (chunk->nr_free == CHUNK_PAGES)
		return 9;
	if (chunk->nr_free == 0)
		return -1;
	while (order > 0 &&
	       (chunk->nr_free < 1u << order || find_run(chunk->free, (unsigned int)order) < 0))
		order--;
	return order;
}

/* The bits from this page on, below `end`, in the page's word. */
static uint64_t bits_from(unsigned int page, unsigned int end)
{
	uint64_t bits = ~UINT64_C(0) << page % 64;

	return end > (page | 63) ? bits : bits & ((UINT64_C(1) << end % 64) - 1);
}

/* Not memset() for large runs: the thread sanitizer sees its stores, but not the lock. */
static void set(uint64_t *words, unsigned int page, unsigned int length)
{
	for (unsigned int end = page + length; page < end; page = (page | 63) + 1)
		words[page / 64] |= bits_from(page, end);
}

static void clear(uint64_t *words, unsigned int page, unsigned int length)
{
	for (unsigned int end = page + length; page < end; page = (page | 63) + 1)
		words[page / 64] &= ~bits_from(page, end);
}

/* How many of these bits are set. */
static unsigned int count_pages(const uint64_t *words, unsigned int page, unsigned int length)
{
	unsigned int n = 0;

	for (unsigned int end = page + length; page < end; page = (page | 63) + 1)
		n += (unsigned int)__builtin_popcountll(words[page / 64] & bits_from(page, end));
	return n;
}

/* PAGE-P1: the counts are those of the bits. Of used pages, the bits of dirty ones say nothing. */
static __attribute__((unused)) bool counts_are_right(const struct chunk *chunk)
{
	unsigned int dirty = 0;

	for (unsigned int i = 0; i < CHUNK_WORDS; i++)
		dirty += (unsigned int)__builtin_popcountll(chunk->free[i] & chunk->dirty[i]);
	return chunk->nr_free == count_pages(chunk->free, 0, CHUNK_PAGES) &&
	       chunk->nr_dirty == dirty;
}

/* The run at this page is no longer free. Returns the page, which may be -1. */
static int take_at(struct chunk *chunk, int page, unsigned int order)
{
	if (page < 0)
		return -1;
	/* PAGE-P1, PAGE-P2 */
	os_assert(!((unsigned int)page & ((1u << order) - 1)) &&
		  count_pages(chunk->free, (unsigned int)page, 1u << order) == 1u << order);
	clear(chunk->free, (unsigned int)page, 1u << order);
	chunk->nr_free -= 1u << order;
	if (!chunk->nr_free)
		chunk->nr_dirty = 0;
	else if (chunk->nr_dirty)
		chunk->nr_dirty -= count_pages(chunk->dirty, (unsigned int)page, 1u << order);
	os_assert(counts_are_right(chunk)); /* PAGE-P1 */
	return page;
}

int chunk_take(struct chunk *chunk, unsigned int order)
{
	int page = -1;

	if (chunk->nr_free == CHUNK_PAGES)
		page = 0;
	else if (chunk->nr_free >= 1u << order)
		page = find_run(chunk->free, order);
	return take_at(chunk, page, order);
}

int chunk_take_used(struct chunk *chunk, unsigned int order)
{
	uint64_t used[CHUNK_WORDS];

	if (chunk->nr_dirty < 1u << order)
		return -1;
	for (unsigned int i = 0; i < CHUNK_WORDS; i++)
		used[i] = chunk->free[i] & chunk->dirty[i];
	return take_at(chunk, find_run(used, order), order);
}

/* The run is free; of its pages, `dirty` are dirty. */
static void give_at(struct chunk *chunk, unsigned int page, unsigned int order, unsigned int dirty)
{
	/* PAGE-P1: a run that is freed twice is part of none the second time. */
	os_assert(!count_pages(chunk->free, page, 1u << order));
	set(chunk->free, page, 1u << order);
	chunk->nr_free += 1u << order;
	chunk->nr_dirty += dirty;
	os_assert(counts_are_right(chunk)); /* PAGE-P1 */
}

unsigned int chunk_give_untouched(struct chunk *chunk, unsigned int page, unsigned int order)
{
	unsigned int dirty = count_pages(chunk->dirty, page, 1u << order);

	give_at(chunk, page, order, dirty);
	return dirty;
}

void chunk_give(struct chunk *chunk, unsigned int page, unsigned int order)
{
	set(chunk->dirty, page, 1u << order);
	give_at(chunk, page, order, 1u << order);
	chunk->locked = false;
}

void chunk_make_dirty(struct chunk *chunk)
{
	memset(chunk->dirty, 0xff, sizeof(chunk->dirty));
	chunk->nr_dirty = CHUNK_PAGES;
}

/* Does a system page begin here that is free and at least partly dirty? */
static bool can_go(const struct chunk *chunk, unsigned int page, unsigned int order)
{
	uint64_t dirty = chunk->dirty[page / 64];

	for (unsigned int k = 0; k < order; k++)
		dirty |= dirty >> (1u << k);
	return (dirty & runs_in_word(chunk->free[page / 64], order)) >> page % 64 & 1;
}

unsigned int chunk_take_dirty(struct chunk *chunk, unsigned int order, unsigned int from,
			      unsigned int end, unsigned int *page)
{
	unsigned int step = 1u << order, length = 0;

	from = (from + step - 1) & ~(step - 1);
	while (from < end && !can_go(chunk, from, order))
		from += step;
	*page = from;
	while (from + length < end && can_go(chunk, from + length, order))
		length += step;
	if (length) {
		chunk->nr_dirty -= count_pages(chunk->dirty, from, length);
		clear(chunk->dirty, from, length);
		clear(chunk->free, from, length);
		chunk->nr_free -= length;
	}
	os_assert(counts_are_right(chunk)); /* PAGE-P1 */
	return length;
}

void chunk_give_taken(struct chunk *chunk, unsigned int page, unsigned int length, bool gone)
{
	/* PAGE-P1: no thread found these pages while they were taken out. */
	os_assert(!count_pages(chunk->free, page, length));
	set(chunk->free, page, length);
	chunk->nr_free += length;
	chunk->locked = !gone;
	if (gone)
		return;
	set(chunk->dirty, page, length);
	chunk->nr_dirty += length;
}
