/* SPDX-License-Identifier: MIT */
/* Ranges, chunks and runs; see page.h. */
#include "page/page.h"

#include <string.h>

#include "os/atomic.h"
#include "os/lock.h"
#include "os/machine.h"
#include "os/options.h"
#include "page/chunk.h"

#define LARGEST_SHIFT  44
#define SMALLEST_SHIFT 23
#define ADDRESS_SHIFT  46 /* all ranges together: half of what x86-64 has, a quarter of AArch64 */
#define CHUNK_SLABS    (CHUNK_PAGES * sizeof(struct slab))
#define NR_LISTS       (PAGE_MAX_ORDER + 1)

struct range {
	struct os_lock lock;
	uint32_t nr_chunks; /* used so far, from below */
	struct chunk *chunks;
	size_t chunks_committed; /* bytes of the array above */
	struct chunk *lists[NR_LISTS];
	size_t used, dirty; /* pages */
	size_t stuck;	    /* of the dirty ones could not go: parts of the system's pages */
	uint32_t cursor;    /* the chunk to give parts of back next */
};

struct pages pages;
static struct range ranges[OS_MAX_NODES];

static size_t max_chunks(void)
{
	return (size_t)1 << (pages.range_shift - OS_HUGE_SHIFT);
}

/* A page of the system is so many of ours, as a power of two. */
static unsigned int system_order(void)
{
	return (unsigned int)__builtin_ctzll(os.page_size) - OS_PAGE_SHIFT;
}

static size_t bytes_of_slabs(size_t size)
{
	return (size >> OS_PAGE_SHIFT) * sizeof(struct slab);
}

/* Everything for ranges of this size, or nothing. */
static bool reserve(unsigned int shift)
{
	size_t size = (size_t)os.nr_nodes << shift, slabs = bytes_of_slabs(size);
	size_t readable = os.nr_nodes == 1 && size > PAGE_READABLE ? PAGE_READABLE : size;
	size_t chunks = os_round_up(((size_t)1 << (shift - OS_HUGE_SHIFT)) * sizeof(struct chunk));
	char *tables;

	pages.base = os_reserve(size);
	if (!pages.base)
		return false;
	tables = os_reserve(slabs + chunks * os.nr_nodes);
	if (tables && !os_allow_reads(tables, bytes_of_slabs(readable))) {
		os_unreserve(tables, slabs + chunks * os.nr_nodes);
		tables = NULL;
	}
	if (!tables) {
		os_unreserve(pages.base, size);
		return false;
	}
	pages.size = size;
	pages.readable = readable;
	pages.range_shift = shift;
	pages.slabs = (struct slab *)tables;
	for (uint32_t node = 0; node < os.nr_nodes; node++) {
		struct range *range = &ranges[node];

		os_lock_init(&range->lock, OS_RANK_PAGES);
		range->chunks = (struct chunk *)(tables + slabs + node * chunks);
		if (os.nr_nodes > 1)
			os_prefer_node(pages.base + ((size_t)node << shift), (size_t)1 << shift,
				       node);
	}
	return true;
}

static bool reserve_largest(void)
{
	size_t limit = os_address_limit() / 2;
	unsigned int shift = LARGEST_SHIFT;

	if (limit > (size_t)1 << ADDRESS_SHIFT)
		limit = (size_t)1 << ADDRESS_SHIFT;
	while (shift > SMALLEST_SHIFT && ((size_t)os.nr_nodes << shift) > limit)
		shift--;
	for (; shift >= SMALLEST_SHIFT; shift--)
		if (reserve(shift))
			return true;
	return false;
}

bool page_init(void)
{
	if (pages.size || reserve_largest())
		return true;
	if (os.nr_nodes == 1)
		return false;
	os_forget_nodes();
	return reserve_largest();
}

static size_t chunk_index(struct range *range, struct chunk *chunk)
{
	return (size_t)(range - ranges) * max_chunks() + (size_t)(chunk - range->chunks);
}

static char *chunk_address(struct range *range, struct chunk *chunk)
{
	return pages.base + (chunk_index(range, chunk) << OS_HUGE_SHIFT);
}

static struct slab *chunk_slabs(struct range *range, struct chunk *chunk)
{
	return pages.slabs + chunk_index(range, chunk) * CHUNK_PAGES;
}

static void unlist(struct range *range, struct chunk *chunk)
{
	if (chunk->list < 0)
		return;
	if (chunk->prev)
		chunk->prev->next = chunk->next;
	else
		range->lists[chunk->list] = chunk->next;
	if (chunk->next)
		chunk->next->prev = chunk->prev;
	chunk->list = -1;
}

/* Hang the chunk on the list that fits it now. */
static void relist(struct range *range, struct chunk *chunk)
{
	int list = chunk_largest(chunk);

	if (list == chunk->list)
		return;
	unlist(range, chunk);
	if (list < 0)
		return;
	chunk->list = (int8_t)list;
	chunk->prev = NULL;
	chunk->next = range->lists[list];
	if (chunk->next)
		chunk->next->prev = chunk;
	range->lists[list] = chunk;
}

/* Let descriptors up to this distance from pages.base be read (P3). There is one node, if not all can. */
static bool make_readable(size_t end)
{
	size_t readable = pages.readable;

	if (end <= readable)
		return true;
	if (!os_allow_reads((char *)pages.slabs + bytes_of_slabs(readable),
			    bytes_of_slabs(PAGE_READABLE)))
		return false;
	os_store_release(&pages.readable, readable + PAGE_READABLE);
	return true;
}

/* The next chunk from below, made usable, on no list; NULL if range or system are out. */
static struct chunk *grow(struct range *range)
{
	struct chunk *chunk = &range->chunks[range->nr_chunks];
	size_t end = os_round_up((size_t)(range->nr_chunks + 1) * sizeof(*chunk));

	if (range->nr_chunks == max_chunks())
		return NULL;
	if (end > range->chunks_committed) {
		if (!os_commit((char *)range->chunks + range->chunks_committed,
			       end - range->chunks_committed))
			return NULL;
		range->chunks_committed = end;
	}
	if (!make_readable((chunk_index(range, chunk) + 1) << OS_HUGE_SHIFT) ||
	    !os_commit(chunk_slabs(range, chunk), CHUNK_SLABS) ||
	    !os_commit(chunk_address(range, chunk), OS_HUGE))
		return NULL;
	chunk_init(chunk);
	chunk->huge = range->used << OS_PAGE_SHIFT >= PAGE_HUGE_FROM;
	if (chunk->huge)
		os_advise_huge(chunk_address(range, chunk), OS_HUGE, true);
	os_store_release(&range->nr_chunks, range->nr_chunks + 1);
	return chunk;
}

static int take_from_chunk(struct range *range, struct chunk *chunk, unsigned int order)
{
	unsigned int dirty = chunk->nr_dirty;
	int page = chunk_take(chunk, order);

	range->dirty -= dirty - chunk->nr_dirty;
	return page;
}

/*
 * A run from a listed chunk, or a new one. A chunk may hang on a list for larger runs than it has
 * left: taking does not look, that costs more than the rest, and is made good here when it matters.
 */
static struct chunk *take_run(struct range *range, unsigned int order, unsigned int *page)
{
	struct chunk *chunk;
	int found;

	for (unsigned int list = order; list < NR_LISTS; list++)
		while ((chunk = range->lists[list]) != NULL) {
			found = take_from_chunk(range, chunk, order);
			if (found >= 0) {
				*page = (unsigned int)found;
				return chunk;
			}
			relist(range, chunk);
		}
	chunk = grow(range);
	if (chunk) {
		*page = (unsigned int)take_from_chunk(range, chunk, order);
		relist(range, chunk);
	}
	return chunk;
}

struct slab *page_alloc(unsigned int node, unsigned int order)
{
	struct range *range = &ranges[node];
	struct slab *slab = NULL;
	struct chunk *chunk;
	unsigned int page = 0;

	os_lock(&range->lock);
	chunk = take_run(range, order, &page);
	if (chunk) {
		range->used += (size_t)1 << order;
		slab = chunk_slabs(range, chunk) + page;
	}
	os_unlock(&range->lock);
	return slab;
}

void page_own(struct slab *slab, unsigned int order, struct slab_cache *cache)
{
	for (unsigned int i = 1; i < 1u << order; i++) {
		os_store_relaxed(&slab[i].state, SLAB_TAIL | i);
		os_store_relaxed(&slab[i].cache, cache);
	}
	os_store_release(&slab->cache, cache);
}

static void disown(struct slab *slab, unsigned int order)
{
	for (unsigned int i = 0; i < 1u << order; i++) {
		os_store_relaxed(&slab[i].cache, NULL);
		os_store_relaxed(&slab[i].state, 0);
	}
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
		relist(range, chunk);
		os_unlock(&range->lock);
		os_discard(chunk_address(range, chunk) + page * OS_PAGE, length * OS_PAGE);
		if (length == CHUNK_PAGES)
			os_discard(chunk_slabs(range, chunk), CHUNK_SLABS);
		os_lock(&range->lock);
		chunk_give_clean(chunk, page, length);
		relist(range, chunk);
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

void page_free(struct slab *slab, unsigned int order)
{
	size_t index = (size_t)(slab - pages.slabs);
	struct range *range = &ranges[page_node(page_address(slab))];
	struct chunk *chunk = &range->chunks[index / CHUNK_PAGES % max_chunks()];

	disown(slab, order);
	os_lock(&range->lock);
	if (range->stuck > range->dirty)
		range->stuck = range->dirty;
	chunk_give(chunk, (unsigned int)(index % CHUNK_PAGES), order);
	range->dirty += (size_t)1 << order;
	range->used -= (size_t)1 << order;
	relist(range, chunk);
	if (chunk->nr_free == CHUNK_PAGES && range->dirty > keep_pages(PAGE_KEEP_CHUNKS))
		discard_dirty(range, chunk);
	else if (range->dirty - range->stuck > may_keep(range))
		discard_parts(range);
	os_unlock(&range->lock);
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

size_t page_slabs(unsigned int node, struct slab **first)
{
	*first = pages.slabs + node * max_chunks() * CHUNK_PAGES;
	return (size_t)os_load_acquire(&ranges[node].nr_chunks) * CHUNK_PAGES;
}

struct slab *page_slab(const void *address)
{
	size_t offset = (uintptr_t)address - (uintptr_t)pages.base;
	struct slab *slab;
	uint64_t state;

	if (offset >= os_load_relaxed(&pages.readable))
		return NULL;
	slab = pages.slabs + (offset >> OS_PAGE_SHIFT);
	state = os_load_acquire(&slab->state);
	if (state & SLAB_TAIL)
		slab -= (uint16_t)state;
	return os_load_acquire(&slab->cache) ? slab : NULL;
}

void page_lock_all(void)
{
	/* Same rank, so by try-lock: fork() is the only one to hold several. */
	for (uint32_t node = 0; node < os.nr_nodes; node++)
		while (!os_trylock(&ranges[node].lock))
			os_yield();
}

void page_unlock_all(void)
{
	for (uint32_t node = os.nr_nodes; node-- > 0;)
		os_unlock(&ranges[node].lock);
}

struct page_usage page_usage(void)
{
	struct page_usage usage = {0, 0, 0};

	for (uint32_t node = 0; node < os.nr_nodes; node++) {
		struct range *range = &ranges[node];

		os_lock(&range->lock);
		usage.committed += (size_t)range->nr_chunks << OS_HUGE_SHIFT;
		usage.used += range->used << OS_PAGE_SHIFT;
		usage.dirty += range->dirty << OS_PAGE_SHIFT;
		os_unlock(&range->lock);
	}
	return usage;
}
