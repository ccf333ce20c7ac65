/* SPDX-License-Identifier: MIT */
/*
 * Page runs and slab descriptors: arithmetic and one descriptor tell which slab a pointer is in,
 * arithmetic alone which node it is on.
 *
 *   addresses   | node 0's range | node 1's range | ...      each 1 << range_shift bytes
 *   descriptors | 32 bytes for every page of the above, same order
 *   words       | 64 bytes for every page, for the bits of slabs of more than 64 objects; else a
 *               | link: slab/rcu_free_slab.c
 *   marks       | 256 bytes for every page, if each free is checked: page/object_marks.h
 *
 * A node's range is used from its lowest address, in chunks of 2 MiB. A chunk has a bitmap of its
 * free pages. Chunks with free pages are on lists, by the largest aligned run in them.
 *
 * The descriptor of a run's first page belongs to the run's owner. The descriptors of its other
 * pages have SLAB_TAIL and the distance to the first page. All of them name the cache that owns the
 * run; in the descriptor of a free page, the cache is NULL.
 *
 * Invariants
 *  PAGE-P1. A page is free (its bit is set) or part of exactly one run.
 *  PAGE-P2. A run of 2^k pages is aligned to 2^k pages, k <= PAGE_WIDE_ORDER. Above
 *      PAGE_MAX_ORDER it is several whole chunks.
 *  PAGE-P3. The descriptor of every address below pages.readable can be read at any time:
 *      page_owner() tests nothing else. Those above a range's top read zero.
 *  PAGE-P4. Free pages that were used and not yet returned ("dirty"), and mappings that wait, stay
 *      if they were in use in the time of the option decay; a part of older ones stays;
 *      in all at most an eighth of memory (keep.c). Pages have the first claim. With decay=never,
 *      no page returns without page_trim(). The limit may be exceeded: by memory that one call does
 *      not return because that would take long (PAGE_DISCARD_MAX), and by memory that the system
 *      cannot take back: parts of its own, larger pages, and parts of chunks for which it has no
 *      more mappings (huge.c). Locked memory goes only above the soft limit, in page_trim() and in
 *      page_free_to_system(). Pages return when pages are freed, and when a layer above says that
 *      time has passed: page_decay().
 *
 * Locks: OS_RANK_PAGES, one for each range; not held while memory returns to the system.
 * Callers: src/slab/, src/page/pool.c for the library's own structures.
 */
#ifndef SHEAF_PAGE_PAGE_H
#define SHEAF_PAGE_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/atomic.h"
#include "os/memory.h"

#define PAGE_MAX_ORDER	9  /* of runs within a chunk */
#define PAGE_WIDE_ORDER 11 /* 8 MiB: the largest object, and what checks put around it */
#define PAGE_WORDS	8  /* of bits for a page of the smallest objects */
/*
 * The most bytes that one call returns, in whole chunks: 0.5 ms if these are huge pages, 3 ms in
 * pages of 4 KiB. Half: memory that is freed faster than 2 GiB a second goes later; double: calls
 * of 5 ms.
 */
#define PAGE_DISCARD_MAX ((size_t)32 << 20)
/*
 * Bytes in use from which huge pages are advised: then a page fault costs 0.6 µs for each 4 KiB,
 * but one touched byte may cost 2 MiB. From 16 MiB, programs of 30 to 120 MiB hold 2 to 11 % more;
 * never, they take as much time and hold as much.
 */
#define PAGE_HUGE_FROM ((size_t)128 << 20)

#define SLAB_TAIL (UINT64_C(1) << 63)
#define SLAB_NONE UINT32_MAX /* a link to no slab: no range has a page with this number */

struct slab_cache;

struct slab {
	uint64_t state;
	struct slab_cache *cache;
	uint64_t bits;	     /* of a slab of at most 64 objects: set while the object is free */
	uint32_t next, prev; /* in a list of its node: see slab/partial.h */
};

_Static_assert(sizeof(struct slab) == 32, "a descriptor is 32 bytes");

struct pages {
	char *base;
	size_t size;
	size_t readable; /* all; with one node, the used part */
	struct slab *slabs;
	uint64_t *words;
	uint32_t words_usable;		 /* of all chunks, and of those to come */
	uintptr_t slab_of_0, words_of_0; /* of address 0, if the two went on to there */
	uint8_t *marks;			 /* NULL: there are none */
	unsigned int range_shift;
	size_t remote_size; /* size if there are several nodes, otherwise 0 */
};

extern struct pages pages __attribute__((visibility("hidden"))); /* no GOT on fast paths */

/* Reserve the ranges. False if even the smallest are refused. In reserve.c. */
bool page_init(void);

/* A run of 2^order pages of this node, or NULL. In its descriptor, the state is 0 and the cache is
 * NULL. */
struct slab *page_alloc(unsigned int node, unsigned int order);
/* The same without waiting: NULL also if another thread has the node's lock. */
struct slab *page_alloc_try(unsigned int node, unsigned int order);
/* Up to n such runs, with the node's lock taken once. Returns how many there are. */
unsigned int page_alloc_runs(unsigned int node, unsigned int order, struct slab **runs,
			     unsigned int n);
/* Name the run's owner in its descriptors: from now on page_slab() finds it. */
void page_own(struct slab *slab, unsigned int order, struct slab_cache *cache);
void page_free(struct slab *slab, unsigned int order);
/* As page_free(), and return the pages to the system; with the last ones of a chunk, all of it. */
void page_free_to_system(struct slab *slab, unsigned int order);
/* As page_free(), for a run that is as page_alloc() returned it: it is no dirtier than before. */
void page_give_back(struct slab *slab, unsigned int order);
/* Free objects that a program may always have, in bytes. It follows what was in use recently:
 * keep.c. */
size_t page_bound(void);
/* Of that, for each CPU that runs the program. */
extern size_t page_sheaves_each_cpu __attribute__((visibility("hidden")));
/* Return what may no longer stay on this node: PAGE_DISCARD_MAX at most of pages, and of mappings
 * as much, or one. Returns false if nothing will be left for later calls. Does nothing while
 * another thread has the node's lock. */
bool page_decay(unsigned int node);
/*
 * Return free pages to the system until `keep` bytes of them are left: free chunks first, in steps
 * of PAGE_DISCARD_MAX, with no lock held between them. In discard.c.
 */
void page_trim_to(size_t keep);

static inline void page_trim(void)
{
	page_trim_to(0);
}

/* The run that contains this address, or NULL if it is in a free page or not the library's. */
struct slab *page_slab(const void *address);
/* The descriptors of a node's pages that were ever used. Returns their number. */
size_t page_slabs(unsigned int node, struct slab **first);
/* Each of those of all nodes. */
#define page_for_each_slab(slab)                                                                   \
	for (unsigned int slab##_node = 0; slab##_node < os.nr_nodes; slab##_node++)               \
		for (size_t slab##_left = page_slabs(slab##_node, &(slab)); slab##_left > 0;       \
		     slab##_left--, (slab)++)

/* Take and release the locks of every range and pool: around fork(). */
void page_lock_all(void);
void page_unlock_all(void);

struct page_usage {
	size_t committed, used, dirty; /* bytes: made usable; in runs; free, also in mappings */
	size_t returned;	       /* bytes, so far */
	size_t splits, most_splits;    /* mappings beyond one a node, and how many there may be */
};
struct page_usage page_usage(void);

static inline bool page_is_ours(const void *address)
{
	return (uintptr_t)address - (uintptr_t)pages.base < pages.size;
}

/* The cache whose run contains this address, or NULL: the fast path of kfree(). */
static inline struct slab_cache *page_owner(const void *address)
{
	size_t offset = (uintptr_t)address - (uintptr_t)pages.base;

	if (os_unlikely(offset >= os_load_relaxed(&pages.readable)))
		return NULL;
	return os_load_relaxed(&pages.slabs[offset >> OS_PAGE_SHIFT].cache);
}

/* In reserve.c. Make the words of all pages usable; false: the system refuses memory for them. */
bool page_make_words(void);
/* Call it before page_words() is used for any run. */
static inline bool page_use_words(void)
{
	return os_load_acquire(&pages.words_usable) || page_make_words();
}

/* The words of bits of a run: PAGE_WORDS for each of its pages. */
static inline uint64_t *page_words(const struct slab *slab)
{
	return pages.words + (size_t)(slab - pages.slabs) * PAGE_WORDS;
}

/* Prefetch the descriptor of any address, which will be needed soon. */
static inline void page_ask_ahead(const void *address)
{
	size_t offset = (uintptr_t)address - (uintptr_t)pages.base;

	__builtin_prefetch((char *)pages.slabs + (offset >> OS_PAGE_SHIFT) * sizeof(struct slab),
			   1);
}

/* Prefetch the words of a run at this address: 512 bits of them. */
static inline void page_ask_words_ahead(const void *address)
{
	size_t page = ((uintptr_t)address - (uintptr_t)pages.base) >> OS_PAGE_SHIFT;

	__builtin_prefetch(pages.words + page * PAGE_WORDS, 1);
}

static inline unsigned int page_node(const void *address)
{
	return (unsigned int)(((uintptr_t)address - (uintptr_t)pages.base) >> pages.range_shift);
}

static inline char *page_address(const struct slab *slab)
{
	return pages.base + ((size_t)(slab - pages.slabs) << OS_PAGE_SHIFT);
}

#endif
