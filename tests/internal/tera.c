/* SPDX-License-Identifier: MIT */
/*
 * Heaps of 10 TiB, with little memory: the range is made to look as if its first 10 TiB were in
 * use, and the rest is really used. So each number that counts pages or bytes, or links slabs, is
 * as large as in such a heap. The rest is arithmetic.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cache/cache.h"
#include "internal/kit/ready.h"
#include "kit/check.h"
#include "kit/process.h"
#include "kit/sanitizers.h"
#include "kit/unit.h"
#include "os/machine.h"
#include "os/options/options.h"
#include "page/limit.h"
#include "page/map.h"
#include "page/object_marks.h"
#include "page/range.h"
#include "percpu/barn/budget.h"
#include "slab/partial.h"
#include <sheaf/stats.h>

#define TIB ((size_t)1 << 40)

enum {
	OBJECTS = 3000,
	CHUNKS = 40, /* real ones */
	FEW = 16,    /* mappings */
};

static void *objects[OBJECTS];

static char *page_of(const void *address)
{
	return (char *)os_round_down((uintptr_t)address);
}

/* Its first n chunks are in use; they are never touched. */
static void pretend(size_t n)
{
	struct range *range = &ranges[0];
	char *top = (char *)(range->chunks + 1), *last = page_of(range_chunk(range, n - 1));
	size_t readable = n << OS_HUGE_SHIFT;

	CHECK(os_allow_reads(last, (size_t)(top - last) - range->chunks_committed));
	CHECK(os_commit(last, os.page_size));
	range->chunks_committed = (size_t)(top - last);
	range->nr_chunks = (uint32_t)n;
	/* LIMIT-H1 */
	page_hold_anyway(n * CHUNK_PAGES - range->used - range->dirty);
	range->used = n * CHUNK_PAGES;
	range->dirty = range->stuck = 0;
	memset(range->lists, 0, sizeof(range->lists));
	if (os.nr_nodes == 1 && pages.readable < readable) {
		char *from = page_of(&pages.slabs[pages.readable >> OS_PAGE_SHIFT]) + os.page_size,
		     *end = page_of(&pages.slabs[readable >> OS_PAGE_SHIFT]) + os.page_size;

		CHECK(os_allow_reads(from, (size_t)(end - from)));
		pages.readable = readable;
	}
}

static unsigned int nr_mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	unsigned int n = 0;
	int c;

	CHECK(file);
	while ((c = getc(file)) != EOF)
		n += c == '\n';
	fclose(file);
	return n;
}

static void use(struct kmem_cache *s, size_t from)
{
	for (int i = 0; i < OBJECTS; i++) {
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
		CHECK(objects[i] && (size_t)((char *)objects[i] - pages.base) >= from);
		memset(objects[i], 0x5a, kmem_cache_size(s));
		CHECK(page_slab(objects[i]) && page_owner(objects[i]) == &s->sheaf.slab);
	}
	/* Every slab is partial, and linked by numbers. */
	for (int i = 0; i < OBJECTS; i += 2)
		kmem_cache_free(s, objects[i]);
	kmem_cache_shrink(s);
	for (int i = 0; i < OBJECTS; i += 2) {
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
		CHECK(objects[i]);
	}
	for (int i = 0; i < OBJECTS; i++)
		kmem_cache_free(s, objects[i]);
}

static void slabs_above(size_t bytes)
{
	struct kmem_cache *small = kmem_cache_create("small", 16, NULL, SLAB_NO_MERGE);
	struct kmem_cache *large =
		kmem_cache_create("large", 1000, NULL, SLAB_NO_MERGE | SLAB_NO_SHEAVES);
	struct page_usage usage;
	unsigned int mappings;
	const struct slab_node *node;
	uint32_t link;

	CHECK(small && large);
	pretend(bytes / OS_HUGE);
	mappings = nr_mappings();
	use(small, bytes);
	use(large, bytes);
	node = large->sheaf.slab.nodes[0];
	link = node->first;
	CHECK(link == SLAB_NONE || link >= bytes >> OS_PAGE_SHIFT);
	CHECK(node->nr_slabs < OBJECTS && node->nr_partial <= node->nr_slabs);
	usage = page_usage();
	CHECK(usage.committed > bytes && usage.committed < bytes + CHUNKS * OS_HUGE);
	CHECK(usage.used >= bytes && usage.used + usage.dirty <= usage.committed);
	CHECK(usage.splits <= usage.most_splits);
	CHECK(nr_mappings() <= mappings + FEW);
	kmem_cache_shrink(large);
	kmem_cache_shrink(small);
}

static void at_ten(void)
{
	slabs_above(10 * TIB);
}

static bool has_large_range(void)
{
	return range_max_chunks() << OS_HUGE_SHIFT >= 16 * TIB && os.page_size == OS_PAGE;
}

static void slabs_above_10_tib(void **state)
{
	(void)state;
	if (!has_large_range())
		skip();
	assert_int_equal(in_child(at_ten), 0);
}

/* A page's number within its node always differs from "no slab". */
static void at_the_end(void)
{
	size_t most = range_max_chunks();
	struct slab *last, *first;

	pretend(most - 2);
	first = page_alloc(0, PAGE_MAX_ORDER);
	CHECK(first && (size_t)(first - pages.slabs) / CHUNK_PAGES == most - 2);
	CHECK((uint64_t)(first - pages.slabs) + CHUNK_PAGES - 1 < SLAB_NONE);
	last = page_alloc(0, PAGE_MAX_ORDER);
	CHECK(!last && !page_alloc(0, 0));
	page_free(first, PAGE_MAX_ORDER);
	last = page_alloc(0, 0);
	CHECK(last == first);
}

static void the_last_chunk_has_no_number(void **state)
{
	(void)state;
	if (!has_large_range())
		skip();
	assert_int_equal(in_child(at_the_end), 0);
}

/* Parts of what they describe: 1/128 for descriptors, and less than 1/32 with all bits in use. */
static void tables_are_small(void **state)
{
	size_t slabs = 10 * TIB / OS_PAGE * sizeof(struct slab);
	size_t words = 10 * TIB / OS_PAGE * PAGE_WORDS * sizeof(uint64_t);
	size_t chunks = 10 * TIB / OS_HUGE * sizeof(struct chunk);
	size_t entries = 10 * TIB / OS_HUGE * sizeof(uintptr_t);

	(void)state;
	assert_int_equal(slabs, 80 * (TIB / 1024));
	assert_true(chunks + entries <= 10 * TIB / 8192);
	assert_true(slabs + words + chunks <= 10 * TIB / 32);
	/* Verify copies the pointers in sheaves, of which the budget bounds the objects. */
	assert_true(10 * TIB / 16 / sizeof(uint64_t) < SIZE_MAX / sizeof(void *));
	/* The counts of a node's slabs, and the numbers of its pages, have 32 bits. */
	assert_true(((size_t)UINT32_MAX << OS_PAGE_SHIFT) / TIB >= 15);
}

/* A block of its own, of the whole size. */
static void block_of_ten(void)
{
	size_t used = page_usage().used, size = 10 * TIB + OS_PAGE;
	char *block = map_alloc(size, OS_PAGE, 0, true);
	struct mapping found;

	if (!block)
		return; /* This system does not overcommit memory. */
	block[0] = block[10 * TIB] = 1;
	for (size_t at = 0; at < size; at += TIB / 3) {
		found = map_find(block + at);
		CHECK(found.address == block && found.size == size);
	}
	found = map_find(block + size - 1);
	CHECK(found.address == block && found.size == size);
	CHECK(map_find(block + size).size == 0 && map_find(block - 1).size == 0);
	CHECK(map_bytes() >= size);
	CHECK(page_usage().used - used <= size / 65536);
	CHECK(map_free(block) && !map_free(block));
	CHECK(map_find(block + TIB).size == 0 && map_bytes() < size);
}

#if HAS_ASAN /* it would have 1.25 TiB of shadow to write */
#define HAS_SHADOW true
#else
#define HAS_SHADOW false
#endif

static void block_of_10_tib(void **state)
{
	(void)state;
	if (!has_large_range() || HAS_SHADOW)
		skip();
	assert_int_equal(in_child(block_of_ten), 0);
}

static void budget_of_10_tib(void **state)
{
	struct sheaf_stats stats;
	size_t limit = (size_t)sheaf_budget.limit, used = sheaf_budget_used();

	(void)state;
	sheaf_budget_set_limit(10 * TIB / 16);
	sheaf_budget_add(sheaf_budget.limit + 1 - (intptr_t)used);
	assert_true(sheaf_budget_is_over());
	sheaf_stats(&stats);
	assert_true(stats.sheaf_bytes == 10 * TIB / 16 + 1);
	sheaf_budget_set_limit(limit);
	sheaf_budget_add((intptr_t)used - (intptr_t)stats.sheaf_bytes);
	assert_int_equal(sheaf_budget_used(), used);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables_are_small),
		cmocka_unit_test(budget_of_10_tib),
		cmocka_unit_test(slabs_above_10_tib),
		cmocka_unit_test(the_last_chunk_has_no_number),
		cmocka_unit_test(block_of_10_tib),
	};

	return cmocka_run_group_tests_name("tera", tests, setup, NULL);
}
