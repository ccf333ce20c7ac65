/* SPDX-License-Identifier: MIT */
/*
 * Huge pages and mappings: a growing range is one mapping. A chunk whose parts were returned is a
 * separate mapping until the whole chunk is free or in use. These are counted, and never exceed the
 * budget.
 */
#include "cache/process.h"
#include "internal/kit/pages.h"
#include "kit/unit.h"
#include "os/options/options.h"
#include "page/page.h"
#include "page/range.h"
#include <sheaf/stats.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum {
	CHUNKS = 64,
	HALF = 8 /* order of half a chunk */
};

/* The number of the system's mappings that begin in [begin, end). */
static unsigned int mappings_between(uintptr_t begin, uintptr_t end)
{
	FILE *file = fopen("/proc/self/maps", "re");
	unsigned int n = 0;
	char line[512];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		uintptr_t at = strtoul(line, NULL, 16);

		n += at >= begin && at < end;
	}
	fclose(file);
	return n;
}

/* True if advice splits mappings: not under an emulator, nor on a system without huge pages. */
static bool system_splits(void)
{
	size_t size = 3 * OS_HUGE;
	char *at = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool splits;

	madvise(at + OS_HUGE, OS_HUGE, MADV_NOHUGEPAGE);
	splits = mappings_between((uintptr_t)at + 1, (uintptr_t)at + size) == 2;
	munmap(at, size);
	return splits;
}

/* HUGE-D1 */
static void counted_as_the_system_does(void)
{
	static int splits = -1;
	uintptr_t begin = (uintptr_t)pages.base;

	if (splits < 0)
		splits = system_splits();
	if (splits)
		assert_int_equal(mappings_between(begin, begin + ((uintptr_t)ranges[0].nr_chunks
								  << OS_HUGE_SHIFT)),
				 1 + page_usage().splits);
}

static struct slab *first[CHUNKS], *second[CHUNKS];

/* Take both halves of a chunk, and write to each, so that there is memory to return. */
static void take_chunk(unsigned int i)
{
	first[i] = page_alloc(0, HALF);
	second[i] = page_alloc(0, HALF);
	assert_non_null(first[i]);
	assert_ptr_equal(second[i], first[i] + CHUNK_PAGES / 2);
	*page_address(first[i]) = 1;
	*page_address(second[i]) = 1;
}

static void take_all(void)
{
	for (unsigned int i = 0; i < CHUNKS; i++)
		take_chunk(i);
}

static void give_all(void)
{
	for (unsigned int i = 0; i < CHUNKS; i++) {
		page_free(first[i], HALF);
		page_free(second[i], HALF);
	}
	page_trim();
}

/* The first half of every second chunk, slowly. */
static void give_parts(void)
{
	for (unsigned int i = 0; i < CHUNKS; i += 2) {
		pages_let_time_pass();
		page_free(first[i], HALF);
	}
}

/* Below PAGE_HUGE_FROM nothing is advised, so there is at most one border. */
static void growth_splits_nothing(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < CHUNKS; i++) {
		take_chunk(i);
		assert_true(page_usage().splits <= 1);
		counted_as_the_system_does();
	}
	give_all();
	assert_true(page_usage().splits <= 1);
	counted_as_the_system_does();
}

static void whole_again(void **state)
{
	size_t before = page_usage().splits;

	(void)state;
	take_all();
	give_parts();
	page_trim();
	assert_true(page_usage().splits >= before + CHUNKS / 2);
	counted_as_the_system_does();
	/* Free the rest of each such chunk, and the whole of the others. */
	for (unsigned int i = 0; i < CHUNKS; i++) {
		if (i % 2)
			page_free(first[i], HALF);
		page_free(second[i], HALF);
		counted_as_the_system_does();
	}
	assert_int_equal(page_usage().splits, before);
	page_trim();
	assert_int_equal(page_usage().dirty, 0);
}

static void used_whole(void **state)
{
	size_t before = page_usage().splits;

	(void)state;
	take_all();
	give_parts();
	page_trim();
	assert_true(page_usage().splits > before);
	for (unsigned int i = 0; i < CHUNKS / 2; i++)
		first[2 * i] = page_alloc(0, HALF);
	assert_int_equal(page_usage().splits, before);
	counted_as_the_system_does();
	give_all();
}

/* A chunk whose parts were returned, of those of which take_all() took the first half. */
static unsigned int a_split_chunk(void)
{
	unsigned int i = 0;

	/* The first chunks of a range get no advice. */
	while (ranges[0].chunks[(size_t)(first[i] - pages.slabs) / CHUNK_PAGES].advice !=
	       CHUNK_PARTS)
		i += 2;
	return i;
}

/* A free chunk that the system may fill with a huge page counts as dirty, so that it is returned
 * in time. */
static void free_chunks_stay_below_the_limit(void **state)
{
	unsigned int split;

	(void)state;
	take_all();
	give_parts();
	page_trim();
	assert_int_equal(page_usage().dirty, 0);
	split = a_split_chunk();
	page_free(second[split], HALF);
	assert_int_equal(page_usage().dirty, os_options.tiny ? 0 : OS_HUGE);
	for (unsigned int i = 0; i < CHUNKS; i += 2) {
		pages_let_time_pass();
		if (i != split)
			page_free(second[i], HALF);
		/* And what was freed now. */
		assert_true(page_usage().dirty <= PAGE_KEEP_CHUNKS + OS_HUGE / 2);
	}
	for (unsigned int i = 0; i < CHUNKS; i += 2) {
		first[i] = page_alloc(0, HALF);
		second[i] = page_alloc(0, HALF);
	}
	give_all();
}

static void beyond_the_budget(void **state)
{
	size_t before = page_usage().splits, most = page_usage().most_splits;
	struct sheaf_stats stats;

	(void)state;
	/* HUGE-D2 */
	take_all();
	huge_splits.most = before + 9;
	give_parts();
	assert_true(page_usage().splits <= before + 9);
	counted_as_the_system_does();
	/* The other parts are kept ... */
	assert_true(page_usage().dirty > PAGE_KEEP_PARTS);
	sheaf_stats(&stats);
	assert_int_equal(stats.split_mappings, page_usage().splits);
	assert_int_equal(stats.split_limit, before + 9);
	/* ... until a thread trims. */
	page_trim();
	assert_int_equal(page_usage().dirty, 0);
	assert_true(page_usage().splits <= before + 9);
	for (unsigned int i = 0; i < CHUNKS; i += 2)
		first[i] = page_alloc(0, HALF);
	give_all();
	assert_int_equal(page_usage().splits, before);
	huge_splits.most = most;
}

/* Free first halves, slowly, of chunks that must not be split: they cannot go. */
static size_t bytes_kept_in_parts(void)
{
	size_t most = page_usage().most_splits;

	clock_stands = true;
	pages_let_time_pass();
	pages_free_some(1);
	take_all();
	huge_splits.most = page_usage().splits;
	for (unsigned int i = 0; i < CHUNKS; i++) {
		pages_let_time_pass();
		page_free(first[i], HALF);
	}
	assert_true(page_usage().dirty > 2 * PAGE_KEEP_PARTS);
	return most;
}

/* Memory that could not be returned can be when its chunk is free; perhaps later, because much was
 * freed recently. */
static void parts_that_could_not_go_go_later(void **state)
{
	size_t most = bytes_kept_in_parts(), dirty;
	struct slab *others[CHUNKS];

	(void)state;
	for (unsigned int i = 0; i < CHUNKS; i++)
		others[i] = page_alloc(0, PAGE_MAX_ORDER);
	for (unsigned int i = 0; i < CHUNKS; i++)
		page_free(others[i], PAGE_MAX_ORDER);
	for (unsigned int i = 0; i < CHUNKS; i++)
		page_free(second[i], HALF);
	/* With slub_tiny they are returned immediately. */
	assert_int_equal(page_usage().dirty > CHUNKS * OS_HUGE, !os_options.tiny);
	pages_let_time_pass();
	pages_free_some(8 * CHUNKS * OS_HUGE / PAGE_DISCARD_MAX);
	dirty = page_usage().dirty;
	page_trim();
	huge_splits.most = most;
	assert_true(dirty <= PAGE_KEEP_PARTS);
}

/* Returning one chunk is no reason to try those again that cannot be returned. */
static void parts_that_cannot_go_are_left_alone(void **state)
{
	size_t most = bytes_kept_in_parts();
	uint32_t cursor = ranges[0].cursor, looked;

	(void)state;
	for (unsigned int i = 0; i < CHUNKS / 2; i++) {
		pages_let_time_pass();
		page_free(second[i], HALF);
	}
	looked = ranges[0].cursor - cursor;
	for (unsigned int i = CHUNKS / 2; i < CHUNKS; i++)
		page_free(second[i], HALF);
	page_trim();
	huge_splits.most = most;
	assert_int_equal(looked, 0);
}

/* Use up free halves of chunks next to the library's own memory, so that all other chunks are
 * whole. */
static int setup(void **state)
{
	struct slab *half;

	(void)state;
	if (!caches_ready())
		return -1;
	do
		half = page_alloc(0, HALF);
	while (half && (half - pages.slabs) % CHUNK_PAGES);
	return half && page_alloc(0, HALF) == half + CHUNK_PAGES / 2 ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(growth_splits_nothing),
		cmocka_unit_test(whole_again),
		cmocka_unit_test(used_whole),
		cmocka_unit_test(free_chunks_stay_below_the_limit),
		cmocka_unit_test(beyond_the_budget),
		cmocka_unit_test(parts_that_could_not_go_go_later),
		cmocka_unit_test(parts_that_cannot_go_are_left_alone),
	};

	return cmocka_run_group_tests_name("huge", tests, setup, NULL);
}
