/* SPDX-License-Identifier: MIT */
/* Addresses for the ranges and their tables: reserved once, made usable chunk by chunk. */
#include "os/atomic.h"
#include "os/lock.h"
#include "os/machine.h"
#include "os/memory_tools.h"
#include "os/options/options.h"
#include "page/range.h"

#define LARGEST_SHIFT  44
#define SMALLEST_SHIFT OS_HUGE_SHIFT /* one chunk */
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

/* With slab_guard_pools, there are addresses without memory below the table, to stop overflows. */
static size_t table_guard_bytes(void)
{
	return os_options.guard_pools ? OS_HUGE : 0;
}

static char *reserve_table(size_t size)
{
	char *address = os_reserve(table_guard_bytes() + size);

	return address ? address + table_guard_bytes() : NULL;
}

static void unreserve_table(char *table, size_t size)
{
	os_unreserve(table - table_guard_bytes(), table_guard_bytes() + size);
}

/* The tables for ranges of this size, or NULL: all of them, or none. */
static char *reserve_tables(size_t size, size_t bytes, size_t readable)
{
	char *tables = reserve_table(bytes);

	if (tables && os_allow_reads(tables, bytes_of_slabs(readable))) {
		if (!os_options.check_double)
			return tables;
		pages.marks = (uint8_t *)reserve_table(size >> MARK_SHIFT);
		if (pages.marks)
			return tables;
	}
	if (tables)
		unreserve_table(tables, bytes);
	return NULL;
}

/* Everything for ranges of this size, or nothing. */
static bool reserve(unsigned int shift)
{
	size_t size = (size_t)os.nr_nodes << shift;
	size_t slabs = bytes_of_slabs(size), words = bytes_of_words(size);
	size_t readable = os.nr_nodes == 1 && size > PAGE_READABLE ? PAGE_READABLE : size;
	size_t chunks = os_round_up(((size_t)1 << (shift - OS_HUGE_SHIFT)) * sizeof(struct chunk));
	char *tables;

	pages.base = os_reserve(size);
	if (!pages.base)
		return false;
	tables = reserve_tables(size, slabs + words + chunks * os.nr_nodes, readable);
	if (!tables) {
		os_unreserve(pages.base, size);
		return false;
	}
	tools_hold(pages.base, size);
	pages.size = size;
	pages.remote_size = os.nr_nodes > 1 ? size : 0;
	pages.readable = readable;
	pages.range_shift = shift;
	pages.slabs = (struct slab *)tables;
	pages.words = (uint64_t *)(tables + slabs);
	pages.slab_of_0 = (uintptr_t)pages.slabs - bytes_of_slabs((uintptr_t)pages.base);
	pages.words_of_0 = (uintptr_t)pages.words - bytes_of_words((uintptr_t)pages.base);
	for (uint32_t node = 0; node < os.nr_nodes; node++) {
		struct range *range = &ranges[node];

		os_lock_init(&range->lock, OS_RANK_PAGES);
		range->chunks = (struct chunk *)(tables + slabs + words + node * chunks);
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
	if (os_options.reserve && limit > (size_t)os_options.reserve << 20)
		limit = (size_t)os_options.reserve << 20;
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

/*
 * Make descriptors up to this distance from pages.base readable (PAGE-P3). If not all can be, there
 * is one node.
 */
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

struct chunk *range_grow(struct range *range)
{
	struct chunk *chunk = &range->chunks[range->nr_chunks];
	size_t end = os_round_up((size_t)(range->nr_chunks + 1) * sizeof(*chunk));

	if (range->nr_chunks == range_max_chunks() ||
	    (size_t)(range->nr_chunks + 1) * CHUNK_PAGES > SLAB_NONE)
		return NULL;
	if (end > range->chunks_committed) {
		if (!os_commit((char *)range->chunks + range->chunks_committed,
			       end - range->chunks_committed))
			return NULL;
		range->chunks_committed = end;
	}
	if (!make_readable((chunk_index(range, chunk) + 1) << OS_HUGE_SHIFT) ||
	    !os_commit(chunk_slabs(range, chunk), CHUNK_SLABS) ||
	    !os_commit(page_words(chunk_slabs(range, chunk)), CHUNK_BITS) ||
	    !(!pages.marks || os_commit(mark_at(chunk_address(range, chunk)), CHUNK_MARKS)) ||
	    !os_commit(chunk_address(range, chunk), OS_HUGE))
		return NULL;
	chunk_init(chunk);
	os_store_release(&range->nr_chunks, range->nr_chunks + 1);
	range_grown(range, chunk);
	return chunk;
}
