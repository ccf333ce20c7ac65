/* SPDX-License-Identifier: MIT */
/* Chunks and runs; see page.h. */
#include "os/assert.h"
#include "os/atomic.h"
#include "os/lock.h"
#include "os/machine.h"
#include "os/should_fail.h"
#include "page/map_kept.h"
#include "page/range.h"

struct range ranges[OS_MAX_NODES] OS_LARGE;

static void unlist_chunk(struct range *range, struct chunk *chunk)
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

void range_relist(struct range *range, struct chunk *chunk)
{
	int list = chunk_largest(chunk);

	if (list == PAGE_MAX_ORDER && !chunk->nr_dirty)
		list = RANGE_CLEAN;
	else if (list == PAGE_MAX_ORDER && chunk->locked)
		list = RANGE_LOCKED;
	if (list == chunk->list)
		return;
	unlist_chunk(range, chunk);
	if (list < 0)
		return;
	chunk->list = (int8_t)list;
	chunk->prev = NULL;
	chunk->next = range->lists[list];
	if (chunk->next)
		chunk->next->prev = chunk;
	range->lists[list] = chunk;
}

/* What take_from_chunk() returns in place of a page. */
#define NO_RUN	-1
#define REFUSED -2 /* by the hard limit */

static int take_from_chunk(struct range *range, struct chunk *chunk, unsigned int order)
{
	unsigned int dirty = chunk->nr_dirty, clean;
	size_t whole = range_whole_of(chunk);
	int page = chunk_take(chunk, order);

	if (page < 0)
		return NO_RUN;
	dirty -= chunk->nr_dirty;
	clean = (1u << order) - dirty;
	if (clean && !page_hold(clean)) {
		chunk_give_untouched(chunk, (unsigned int)page, order);
		return REFUSED;
	}
	range_count_dirty(range, -(ptrdiff_t)dirty);
	range->whole -= whole;
	return page;
}

/* A run that is held already. O(chunks with free pages), if the hard limit refused another one. */
static struct chunk *take_held_run(struct range *range, unsigned int order, unsigned int *page)
{
	if (range->dirty < (size_t)1 << order)
		return NULL;
	for (unsigned int list = order; list < RANGE_CLEAN; list++)
		for (struct chunk *chunk = range->lists[list]; chunk; chunk = chunk->next) {
			size_t whole = range_whole_of(chunk);
			int found = chunk_take_used(chunk, order);

			if (found < 0)
				continue;
			range_count_dirty(range, -((ptrdiff_t)1 << order));
			range->whole -= whole;
			*page = (unsigned int)found;
			return chunk;
		}
	return NULL;
}

/*
 * A run from a listed chunk, or from a new one. A chunk may be on a list for larger runs than it
 * has left: taking a run does not check this, because the check would cost more than the rest. It
 * is corrected here when it matters.
 */
static struct chunk *take_run(struct range *range, unsigned int order, unsigned int *page)
{
	struct chunk *chunk;
	int found;

	for (unsigned int list = order; list < RANGE_LISTS; list++)
		while ((chunk = range->lists[list]) != NULL) {
			found = take_from_chunk(range, chunk, order);
			if (found == REFUSED)
				return take_held_run(range, order, page);
			if (found >= 0) {
				*page = (unsigned int)found;
				/* The rest is used before another chunk is begun. */
				if (list == RANGE_CLEAN)
					range_relist(range, chunk);
				return chunk;
			}
			range_relist(range, chunk);
		}
	if ((size_t)1 << order > page_room())
		return NULL;
	chunk = range_grow(range);
	if (!chunk)
		return NULL;
	found = take_from_chunk(range, chunk, order);
	*page = (unsigned int)found;
	range_relist(range, chunk);
	return found >= 0 ? chunk : NULL;
}

/* Chunks. Half: twice as many free neighbours are not found, and addresses used that need not be;
 * double: the lock is held twice as long. */
#define WIDE_LOOK 64

/* Clean pages in n chunks from this one on, of which the last ones may not be there yet; SIZE_MAX:
 * one has pages in use. */
static size_t clean_in(const struct range *range, size_t first, unsigned int n)
{
	size_t clean = (size_t)n * CHUNK_PAGES;

	for (size_t i = first; i < first + n && i < range->nr_chunks; i++) {
		if (range_chunk(range, i)->nr_free != CHUNK_PAGES)
			return SIZE_MAX;
		clean -= range_chunk(range, i)->nr_dirty;
	}
	return clean;
}

/* Hold them all; false: one is in use, or there is no room below the hard limit. */
static bool hold_wide(const struct range *range, size_t first, unsigned int n, size_t room)
{
	size_t clean = clean_in(range, first, n);

	return !clean || (clean != SIZE_MAX && clean <= room && page_hold(clean));
}

/* The first of n free chunks that are neighbours, aligned to n, and now held; or SIZE_MAX. If
 * WIDE_LOOK chunks have none, the range grows, and the next call looks at others. */
static size_t find_wide(struct range *range, unsigned int n)
{
	size_t places = range->nr_chunks / n, from = os_load_relaxed(&range->wide) / n,
	       looks = WIDE_LOOK / n;
	size_t first = range->nr_chunks / n * n, room = page_room();
	struct chunk *chunk;

	for (size_t i = 0; i < looks && i < places; i++)
		if (hold_wide(range, (from + i) % places * n, n, room))
			return (from + i) % places * n;
	if (places)
		os_store_relaxed(&range->wide, (uint32_t)((from + looks) % places * n));
	if (!hold_wide(range, first, n, room) && !hold_wide(range, first += n, n, room))
		return SIZE_MAX;
	while (range->nr_chunks < first + n) {
		chunk = range_grow(range);
		if (!chunk) {
			page_hold_less(clean_in(range, first, n));
			return SIZE_MAX;
		}
		range_relist(range, chunk);
	}
	return first;
}

/* As take_run(), for a run of several chunks. */
static struct chunk *take_wide(struct range *range, unsigned int order)
{
	unsigned int n = 1u << (order - PAGE_MAX_ORDER);
	size_t first = find_wide(range, n);

	if (first == SIZE_MAX)
		return NULL;
	for (unsigned int i = 0; i < n; i++) {
		struct chunk *chunk = range_chunk(range, first + i);

		range->whole -= range_whole_of(chunk);
		range_count_dirty(range, -(ptrdiff_t)chunk->nr_dirty);
		chunk_take(chunk, PAGE_MAX_ORDER);
		range_relist(range, chunk);
		range_taken(range, chunk);
	}
	return range_chunk(range, first);
}

static void disown(struct slab *slab, unsigned int order)
{
	for (unsigned int i = 0; i < 1u << order; i++) {
		os_store_relaxed(&slab[i].cache, NULL);
		os_store_relaxed(&slab[i].state, 0);
	}
}

static __attribute__((unused)) bool is_unnamed(const struct slab *slab, unsigned int order)
{
	for (unsigned int i = 0; i < 1u << order; i++)
		if (os_peek(&slab[i].cache) || os_peek(&slab[i].state))
			return false;
	return true;
}

static unsigned int take_runs(struct range *range, unsigned int order, struct slab **runs,
			      unsigned int n, bool wait)
{
	struct chunk *chunk;
	unsigned int got = 0, page = 0;

	if (!os_lock_if(&range->lock, wait))
		return 0;
	while (got < n &&
	       (chunk = order > PAGE_MAX_ORDER ? take_wide(range, order)
					       : take_run(range, order, &page)) != NULL) {
		os_store_relaxed(&range->used, range->used + ((size_t)1 << order));
		runs[got++] = chunk_slabs(range, chunk) + page;
		/* PAGE-P3 */
		os_assert(((chunk_index(range, chunk) + 1) << OS_HUGE_SHIFT) <=
				  os_peek(&pages.readable) &&
			  is_unnamed(runs[got - 1], order));
		range_taken(range, chunk);
	}
	range_unlock(range);
	return got;
}

unsigned int page_alloc_runs(unsigned int node, unsigned int order, struct slab **runs,
			     unsigned int n)
{
	unsigned int got = 0, looks = 1;

	/* A run of several chunks may be where the first search did not get to. */
	if (order > PAGE_MAX_ORDER)
		looks += os_load_relaxed(&ranges[node].nr_chunks) / WIDE_LOOK;
	if (!os_should_fail("page_alloc"))
		while (!got && looks--)
			got = take_runs(&ranges[node], order, runs, n, true);

	/* Freed mappings that wait make room. */
	if (os_unlikely(!got) && map_trim(OS_PAGE << order))
		got = take_runs(&ranges[node], order, runs, n, true);
	return got;
}

struct slab *page_alloc(unsigned int node, unsigned int order)
{
	struct slab *run;

	return page_alloc_runs(node, order, &run, 1) ? run : NULL;
}

struct slab *page_alloc_try(unsigned int node, unsigned int order)
{
	struct slab *run;
	bool done =
		!os_should_fail("page_alloc") && take_runs(&ranges[node], order, &run, 1, false);

	return done ? run : NULL;
}

void page_own(struct slab *slab, unsigned int order, struct slab_cache *cache)
{
	for (unsigned int i = 1; i < 1u << order; i++) {
		os_store_relaxed(&slab[i].state, SLAB_TAIL | i);
		os_store_release(&slab[i].cache, cache);
	}
	os_store_release(&slab->cache, cache);
}

enum run {
	RUN_UNTOUCHED,
	RUN_USED,
	RUN_RETURNED
};

static void give_part(struct slab *slab, unsigned int order, enum run run)
{
	size_t index = ((uintptr_t)page_address(slab) - (uintptr_t)pages.base) >> OS_PAGE_SHIFT;
	struct range *range = &ranges[page_node(page_address(slab))];
	struct chunk *chunk = range_chunk(range, index / CHUNK_PAGES % range_max_chunks());
	unsigned int page = index % CHUNK_PAGES, dirty = 1u << order;

	/* PAGE-P2; and no address leads to its owner now. */
	os_assert(!(page & ((1u << order) - 1)) && page + dirty <= CHUNK_PAGES &&
		  !os_peek(&slab->cache));
	os_lock(&range->lock);
	if (run != RUN_UNTOUCHED) {
		chunk_give(chunk, page, order);
	} else {
		dirty = chunk_give_untouched(chunk, page, order);
		page_hold_less((1u << order) - dirty);
	}
	range_count_dirty(range, (ptrdiff_t)dirty);
	range->whole += range_whole_of(chunk);
	os_store_relaxed(&range->used, range->used - ((size_t)1 << order));
	range_relist(range, chunk);
	range_given(range, chunk, order);
	if (run == RUN_RETURNED)
		range_return(range, chunk, page, order);
	range_unlock(range);
}

/* Of several chunks, one by one: where they are, the next such run is looked for. */
static void give_run(struct slab *slab, unsigned int order, enum run run)
{
	unsigned int part = order < PAGE_MAX_ORDER ? order : PAGE_MAX_ORDER;

	for (unsigned int i = 0; i < 1u << order; i += 1u << part)
		give_part(slab + i, part, run);
	if (order > PAGE_MAX_ORDER)
		os_store_relaxed(&ranges[page_node(page_address(slab))].wide,
				 (uint32_t)((size_t)(slab - pages.slabs) / CHUNK_PAGES %
					    range_max_chunks()));
}

void page_free(struct slab *slab, unsigned int order)
{
	disown(slab, order);
	give_run(slab, order, RUN_USED);
}

void page_free_to_system(struct slab *slab, unsigned int order)
{
	disown(slab, order);
	give_run(slab, order, RUN_RETURNED);
}

void page_give_back(struct slab *slab, unsigned int order)
{
	give_run(slab, order, RUN_UNTOUCHED);
}

size_t page_slabs(unsigned int node, struct slab **first)
{
	*first = pages.slabs + node * range_max_chunks() * CHUNK_PAGES;
	return (size_t)os_load_acquire(&ranges[node].nr_chunks) * CHUNK_PAGES;
}

struct slab *page_slab(const void *address)
{
	size_t offset = (uintptr_t)address - (uintptr_t)pages.base;
	struct slab *slab, *first;
	uint64_t state, changed;

	if (offset >= os_load_relaxed(&pages.readable))
		return NULL;
	slab = pages.slabs + (offset >> OS_PAGE_SHIFT);
	state = os_load_acquire(&slab->state);
	first = state & SLAB_TAIL ? slab - (uint16_t)state : slab;
	if (!os_load_acquire(&first->cache))
		return NULL;
	/* If the page was free, this may be the cache of a run that was taken meanwhile. */
	changed = os_load_relaxed(&slab->state) ^ state;
	if (!(state & SLAB_TAIL))
		return changed & SLAB_TAIL ? NULL : slab;
	return changed & (SLAB_TAIL | UINT16_MAX) ? NULL : first;
}

void page_lock_all(void)
{
	/* Those of one kind have the same rank, so by try-lock: only fork() holds several. */
	for (uint32_t node = 0; node < os.nr_nodes; node++)
		while (!os_trylock(&ranges[node].pool.lock))
			os_sleep_briefly();
	for (uint32_t node = 0; node < os.nr_nodes; node++)
		while (!os_trylock(&ranges[node].lock))
			os_sleep_briefly();
}

void page_unlock_all(void)
{
	for (uint32_t node = 0; node < os.nr_nodes; node++) {
		os_unlock(&ranges[node].lock);
		os_unlock(&ranges[node].pool.lock);
	}
}

struct page_usage page_usage(void)
{
	struct page_usage usage = {.dirty = map_kept_bytes(),
				   .returned = map_returned_bytes(),
				   .splits = os_load_relaxed(&huge_splits.now),
				   .most_splits = huge_most_splits()};

	for (uint32_t node = 0; node < os.nr_nodes; node++) {
		struct range *range = &ranges[node];

		os_lock(&range->lock);
		usage.committed += (size_t)range->nr_chunks << OS_HUGE_SHIFT;
		usage.used += range->used << OS_PAGE_SHIFT;
		usage.dirty += range->dirty << OS_PAGE_SHIFT;
		usage.returned += range->returned << OS_PAGE_SHIFT;
		os_unlock(&range->lock);
	}
	return usage;
}
