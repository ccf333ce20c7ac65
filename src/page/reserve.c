/* SPDX-License-Identifier: MIT */
/* Addresses for the ranges and their tables: reserved once, made usable chunk by chunk. */
#include "os/atomic.h"
#include "os/lock.h"
#include "os/machine.h"
#include "os/memory_tools.h"
#include "os/options/options.h"
#include "page/range.h"

#define LARGEST_SHIFT  44
#define SMALLEST_SHIFT OS_HUGE_SHIFT			 /* one chunk */
#define WIDE_SHIFT     (OS_PAGE_SHIFT + PAGE_WIDE_ORDER) /* of addresses, for PAGE-P2 */
#define ADDRESS_SHIFT  46 /* all ranges together: half of what x86-64 has, a quarter of AArch64 */

struct pages pages;

static size_t bytes_of_slabs(size_t size)
{
	return (size >> OS_PAGE_SHIFT) * sizeof(struct slab);
}

static size_t bytes_of_words(size_t size)
{
	return (size >> OS_PAGE_SHIFT) * PAGE_WORDS * sizeof(uint64_t);
}

/* With slab_guard_pools, there are addresses without memory below a table, to stop overflows. */
static size_t table_guard_bytes(void)
{
	return os_options.guard_pools ? OS_HUGE : 0;
}

static bool reserve_marks(size_t size)
{
	size_t guard = table_guard_bytes();
	char *address = os_options.check_double ? os_reserve(guard + (size >> MARK_SHIFT)) : NULL;

	if (address)
		pages.marks = (uint8_t *)address + guard;
	return address || !os_options.check_double;
}

/*
 * Everything for ranges of this size, or nothing: with one node, in two system calls. Chunks are
 * counted downwards from the descriptors, which begin in the middle of a page: the first ones of
 * both are in it, and become usable together.
 *
 *   unused, to align the ranges | ... chunks | descriptors | words | ranges
 */
static bool reserve(unsigned int shift)
{
	size_t size = (size_t)os.nr_nodes << shift;
	size_t slabs = os_round_up(bytes_of_slabs(size)), words = os_round_up(bytes_of_words(size));
	size_t chunks = os_round_up(((size_t)1 << (shift - OS_HUGE_SHIFT)) * sizeof(struct chunk));
	size_t tables = table_guard_bytes() + chunks * os.nr_nodes + os.page_size + slabs + words;
	size_t align = (size_t)1 << (shift < WIDE_SHIFT ? shift : WIDE_SHIFT);
	char *all = os_map_anywhere(tables + align + size, false), *base, *shared_page;

	if (!all)
		return false;
	base = (char *)(((uintptr_t)all + tables + align - 1) & ~(align - 1));
	shared_page = base - words - slabs - os.page_size;
	pages.slabs = (struct slab *)(shared_page + os.page_size / 2);
	if (!(os.nr_nodes == 1 || os_allow_reads(shared_page, slabs + os.page_size)) ||
	    !reserve_marks(size)) {
		os_unreserve(all, tables + align + size);
		return false;
	}
	tools_hold(base, size);
	pages.base = base;
	pages.size = size;
	pages.remote_size = os.nr_nodes > 1 ? size : 0;
	pages.readable = pages.remote_size;
	pages.range_shift = shift;
	pages.words = (uint64_t *)(base - words);
	pages.slab_of_0 = (uintptr_t)pages.slabs - bytes_of_slabs((uintptr_t)base);
	pages.words_of_0 = (uintptr_t)pages.words - bytes_of_words((uintptr_t)base);
	for (uint32_t node = 0; node < os.nr_nodes; node++) {
		struct range *range = &ranges[node];

		os_lock_init(&range->lock, OS_RANK_PAGES);
		os_lock_init(&range->pool.lock, OS_RANK_POOL);
		range->chunks = (struct chunk *)((char *)pages.slabs - node * chunks) - 1;
		if (os.nr_nodes > 1)
			os_prefer_node(base + ((size_t)node << shift), (size_t)1 << shift, node);
	}
	return true;
}

/* The largest range of each node, if all may have so many bytes of addresses. */
static unsigned int largest_shift(size_t limit)
{
	unsigned int shift = LARGEST_SHIFT;

	limit /= 2;
	if (limit > (size_t)1 << ADDRESS_SHIFT)
		limit = (size_t)1 << ADDRESS_SHIFT;
	if (os_options.reserve && limit > (size_t)os_options.reserve << 20)
		limit = (size_t)os_options.reserve << 20;
	while (shift > SMALLEST_SHIFT && ((size_t)os.nr_nodes << shift) > limit)
		shift--;
	return shift;
}

/* Few processes have a limit: only one that is refused what it wants asks for it. */
static bool reserve_largest(void)
{
	if (!os_options.reserve && reserve(largest_shift(os_addresses())))
		return true;
	for (unsigned int shift = largest_shift(os_address_limit()); shift >= SMALLEST_SHIFT;
	     shift--)
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

/* The entries of the tables for the next chunk. */
static bool commit_entries(struct range *range, struct chunk *chunk)
{
	char *slabs = (char *)chunk_slabs(range, chunk), *top = (char *)(range->chunks + 1);
	size_t end = (size_t)(top - (char *)os_round_down((uintptr_t)chunk)),
	       more = end - range->chunks_committed;

	/* The first ones are neighbours. */
	if (more && top == slabs)
		slabs -= more;
	else if (more && !os_commit(top - end, more))
		return false;
	if (!os_commit(slabs, (size_t)((char *)(chunk_slabs(range, chunk) + CHUNK_PAGES) - slabs)))
		return false;
	range->chunks_committed = end;
	return (!range->words || os_commit(page_words(chunk_slabs(range, chunk)), CHUNK_BITS)) &&
	       (!pages.marks || os_commit(mark_at(chunk_address(range, chunk)), CHUNK_MARKS));
}

/* Most programs have no slab of more than 64 objects. */
bool page_make_words(void)
{
	for (uint32_t node = 0; node < os.nr_nodes; node++) {
		struct range *range = &ranges[node];
		struct slab *first = pages.slabs + node * range_max_chunks() * CHUNK_PAGES;
		bool done;

		os_lock(&range->lock);
		done = range->words || !range->nr_chunks ||
		       os_commit(page_words(first), range->nr_chunks * CHUNK_BITS);
		range->words = done;
		os_unlock(&range->lock);
		if (!done)
			return false;
	}
	os_store_release(&pages.words_usable, 1);
	return true;
}

struct chunk *range_grow(struct range *range)
{
	struct chunk *chunk = range_chunk(range, range->nr_chunks);
	size_t end;

	if (range->nr_chunks == range_max_chunks() ||
	    (size_t)(range->nr_chunks + 1) * CHUNK_PAGES > SLAB_NONE ||
	    !commit_entries(range, chunk) || !os_commit(chunk_address(range, chunk), OS_HUGE))
		return NULL;
	/* PAGE-P3 */
	end = (chunk_index(range, chunk) + 1) << OS_HUGE_SHIFT;
	if (end > pages.readable)
		os_store_release(&pages.readable, end);
	chunk_init(chunk);
	os_store_release(&range->nr_chunks, range->nr_chunks + 1);
	range_grown(range, chunk);
	return chunk;
}
