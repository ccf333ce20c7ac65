/* SPDX-License-Identifier: MIT */
/*
 * A chunk: 2 MiB of pages and two bitmaps of them, free and dirty (used before). Pages of a run
 * stay dirty if they were, so that a run that was not touched is returned as it was.
 *
 * Callers: src/page/page.c, under its range's lock.
 */
#ifndef SHEAF_PAGE_CHUNK_H
#define SHEAF_PAGE_CHUNK_H

#include <stdbool.h>
#include <stdint.h>

#define CHUNK_PAGES 512
#define CHUNK_WORDS (CHUNK_PAGES / 64)

/* The advice that the system got about a chunk's memory. */
enum chunk_advice {
	CHUNK_PLAIN, /* nothing */
	CHUNK_HUGE,  /* a huge page is wanted */
	CHUNK_PARTS, /* no huge page is wanted: parts of it were returned */
};

struct chunk {
	uint64_t free[CHUNK_WORDS];
	uint64_t dirty[CHUNK_WORDS];
	struct chunk *next, *prev;
	uint16_t nr_free, nr_dirty; /* nr_dirty: of the free ones */
	int8_t list;		    /* the order of the list that it is on, -1: none */
	uint8_t advice;
	bool locked; /* the system refused to take its pages, and none was freed since */
};

/* Make every page free and clean. */
void chunk_init(struct chunk *chunk);
/* The largest k such that an aligned run of 2^k pages is free; -1: none. */
int chunk_largest(const struct chunk *chunk);
/* Take an aligned run of 2^order pages. Returns the index of its first page; -1: there is none. */
int chunk_take(struct chunk *chunk, unsigned int order);
/* As chunk_take(), but a run without clean pages. */
int chunk_take_used(struct chunk *chunk, unsigned int order);
void chunk_give(struct chunk *chunk, unsigned int page, unsigned int order);
/* As chunk_give(), for a run that nobody touched. Returns how many of its pages are dirty. */
unsigned int chunk_give_untouched(struct chunk *chunk, unsigned int page, unsigned int order);
/* For a free chunk: all its pages may have memory. */
void chunk_make_dirty(struct chunk *chunk);
/*
 * Find a run of system pages, of 2^order pages each, from `from` on and before `end`, that are free
 * and at least partly dirty. Make them neither dirty nor free. Returns the length of the run, or 0.
 */
unsigned int chunk_take_dirty(struct chunk *chunk, unsigned int order, unsigned int from,
			      unsigned int end, unsigned int *page);
/* Make it free again: clean if its memory was returned, else all dirty. */
void chunk_give_taken(struct chunk *chunk, unsigned int page, unsigned int length, bool gone);

#endif
