/* SPDX-License-Identifier: MIT */
/*
 * A chunk: 2 MiB of pages and two bitmaps of them, free and dirty (free, but used before).
 *
 * Callers: src/page/page.c, under its range's lock.
 */
#ifndef SHEAF_PAGE_CHUNK_H
#define SHEAF_PAGE_CHUNK_H

#include <stdbool.h>
#include <stdint.h>

#define CHUNK_PAGES 512
#define CHUNK_WORDS (CHUNK_PAGES / 64)

/* What the system was told of a chunk's memory. */
enum chunk_advice {
	CHUNK_PLAIN, /* nothing */
	CHUNK_HUGE,  /* a huge page is wanted */
	CHUNK_PARTS, /* none is: parts of it went back */
};

struct chunk {
	uint64_t free[CHUNK_WORDS];
	uint64_t dirty[CHUNK_WORDS];
	struct chunk *next, *prev;
	uint16_t nr_free, nr_dirty;
	int8_t list; /* the order of the list it hangs on, -1: none */
	uint8_t advice;
};

/* Make every page free and clean. */
void chunk_init(struct chunk *chunk);
/* The largest k such that an aligned run of 2^k pages is free; -1: none. */
int chunk_largest(const struct chunk *chunk);
/* Take an aligned run of 2^order pages: the index of its first page; -1: there is none. */
int chunk_take(struct chunk *chunk, unsigned int order);
void chunk_give(struct chunk *chunk, unsigned int page, unsigned int order);
/* Of a chunk that is free: all its pages may have memory. */
void chunk_make_dirty(struct chunk *chunk);
/*
 * Find a run of the system's pages at or after `from`, of 2^order each, that are free and in part
 * dirty. Make it neither dirty nor free; its length or 0.
 */
unsigned int chunk_take_dirty(struct chunk *chunk, unsigned int order, unsigned int from,
			      unsigned int *page);
/* And make it free again, clean. */
void chunk_give_clean(struct chunk *chunk, unsigned int page, unsigned int length);

#endif
