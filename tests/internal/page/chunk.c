/* SPDX-License-Identifier: MIT */
/*
 * Chunks of 2 MiB: their bitmaps, against a model with one byte per page; huge pages and mappings.
 *
 * A growing range is one mapping. A chunk whose parts were returned is a separate mapping until the
 * whole chunk is free or in use. These are counted, and never exceed the budget.
 */
#include "page/chunk.h"

#include <sheaf/stats.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "cache/process.h"
#include "internal/kit/pages.h"
#include "kit/random.h"
#include "kit/unit.h"
#include "os/machine.h"
#include "os/options/options.h"
#include "page/page.h"
#include "page/range.h"

/* --- bitmaps ---------------------------------------------------------------------------------- */

enum {
	ROUNDS = 20000
};

enum page_state {
	CLEAN,
	DIRTY,
	USED,
	USED_CLEAN, /* it was clean when it was taken */
	DISCARDED   /* taken by chunk_take_dirty() */
};

struct run {
	unsigned int page, order;
};

static enum page_state model[CHUNK_PAGES];
static struct run runs[CHUNK_PAGES];
static unsigned int nr_runs;

static bool model_run_free(unsigned int page, unsigned int order)
{
	for (unsigned int i = 0; i < 1u << order; i++)
		if (model[page + i] > DIRTY)
			return false;
	return true;
}

static int model_largest(void)
{
	for (int order = 9; order >= 0; order--)
		for (unsigned int page = 0; page < CHUNK_PAGES; page += 1u << order)
			if (model_run_free(page, (unsigned int)order))
				return order;
	return -1;
}

static void model_set(unsigned int page, unsigned int length, enum page_state state)
{
	for (unsigned int i = 0; i < length; i++)
		model[page + i] = state;
}

static void model_take(unsigned int page, unsigned int order)
{
	for (unsigned int i = 0; i < 1u << order; i++)
		model[page + i] = model[page + i] == CLEAN ? USED_CLEAN : USED;
}

static void compare(const struct chunk *chunk)
{
	unsigned int nr_free = 0, nr_dirty = 0;

	for (unsigned int i = 0; i < CHUNK_PAGES; i++) {
		assert_int_equal(chunk->free[i / 64] >> i % 64 & 1, model[i] <= DIRTY);
		assert_int_equal(chunk->dirty[i / 64] >> i % 64 & 1,
				 model[i] == DIRTY || model[i] == USED);
		nr_free += model[i] <= DIRTY;
		nr_dirty += model[i] == DIRTY;
	}
	assert_int_equal(chunk->nr_free, nr_free);
	assert_int_equal(chunk->nr_dirty, nr_dirty);
	assert_int_equal(chunk_largest(chunk), model_largest());
}

static void take(struct chunk *chunk, uint64_t *seed)
{
	unsigned int order = random_below(seed, 10), page;

	if ((int)order > chunk_largest(chunk))
		return;
	page = chunk_take(chunk, order);
	assert_int_equal(page % (1u << order), 0);
	assert_true(page + (1u << order) <= CHUNK_PAGES);
	assert_true(model_run_free(page, order));
	model_take(page, order);
	runs[nr_runs++] = (struct run){page, order};
}

static bool model_run_dirty(unsigned int page, unsigned int order)
{
	for (unsigned int i = 0; i < 1u << order; i++)
		if (model[page + i] != DIRTY)
			return false;
	return true;
}

static void take_used(struct chunk *chunk, uint64_t *seed)
{
	unsigned int order = random_below(seed, 10), expected = 0;
	int page = chunk_take_used(chunk, order);

	while (expected < CHUNK_PAGES && !model_run_dirty(expected, order))
		expected += 1u << order;
	assert_int_equal(page, expected < CHUNK_PAGES ? (int)expected : -1);
	if (page < 0)
		return;
	model_take(expected, order);
	runs[nr_runs++] = (struct run){expected, order};
}

/* Returns how many pages are dirty. */
static unsigned int model_give_untouched(struct run run)
{
	unsigned int dirty = 0;

	for (unsigned int i = 0; i < 1u << run.order; i++) {
		dirty += model[run.page + i] == USED;
		model[run.page + i] = model[run.page + i] == USED ? DIRTY : CLEAN;
	}
	return dirty;
}

static void give(struct chunk *chunk, uint64_t *seed)
{
	unsigned int i;
	struct run run;

	if (!nr_runs)
		return;
	i = random_below(seed, nr_runs);
	run = runs[i];
	runs[i] = runs[--nr_runs];
	if (random_below(seed, 4)) {
		chunk_give(chunk, run.page, run.order);
		model_set(run.page, 1u << run.order, DIRTY);
		return;
	}
	assert_int_equal(chunk_give_untouched(chunk, run.page, run.order),
			 model_give_untouched(run));
}

/* True if a whole page of the system is free and partly dirty. */
static bool model_can_go(unsigned int page, unsigned int order)
{
	bool dirty = false;

	for (unsigned int i = 0; i < 1u << order; i++)
		dirty |= model[page + i] == DIRTY;
	return dirty && model_run_free(page, order);
}

static void discard(struct chunk *chunk, uint64_t *seed)
{
	/* System pages of 4, 16 and 64 KiB. */
	unsigned int order = 2 * random_below(seed, 3), step = 1u << order;
	unsigned int from = random_below(seed, CHUNK_PAGES), page, end;
	unsigned int length = chunk_take_dirty(chunk, order, from, CHUNK_PAGES, &page);
	unsigned int expected = (from + step - 1) / step * step;
	bool gone;

	while (expected < CHUNK_PAGES && !model_can_go(expected, order))
		expected += step;
	for (end = expected; end < CHUNK_PAGES && model_can_go(end, order);)
		end += step;
	assert_int_equal(length, end - expected);
	if (!length)
		return;
	assert_int_equal(page, expected);
	model_set(page, length, DISCARDED);
	compare(chunk);
	gone = random_below(seed, 4);
	chunk_give_taken(chunk, page, length, gone);
	model_set(page, length, gone ? CLEAN : DIRTY);
}

static void make_dirty(struct chunk *chunk)
{
	if (!model_run_free(0, 9))
		return;
	chunk_make_dirty(chunk);
	model_set(0, CHUNK_PAGES, DIRTY);
}

static void random_operations(void **state)
{
	uint64_t seed = 20260101;
	struct chunk chunk = {.nr_free = 0};

	(void)state;
	chunk_init(&chunk);
	compare(&chunk);
	for (int round = 0; round < ROUNDS; round++) {
		/* Waves: first mostly takes, then mostly gives. */
		unsigned int bias = round / 500 % 2 ? 3 : 7, what = random_below(&seed, 10);

		if (random_below(&seed, 20) == 0)
			discard(&chunk, &seed);
		else if (random_below(&seed, 20) == 0)
			make_dirty(&chunk);
		else if (what < bias)
			random_below(&seed, 4) ? take(&chunk, &seed) : take_used(&chunk, &seed);
		else
			give(&chunk, &seed);
		compare(&chunk);
	}
}

static void every_order_fills(void **state)
{
	struct chunk chunk = {.nr_free = 0};

	(void)state;
	for (unsigned int order = 0; order <= 9; order++) {
		chunk_init(&chunk);
		for (unsigned int i = 0; i < (unsigned int)CHUNK_PAGES >> order; i++) {
			assert_true(chunk_largest(&chunk) >= (int)order);
			assert_int_equal(chunk_take(&chunk, order), i << order);
		}
		assert_int_equal(chunk_largest(&chunk), -1);
		assert_int_equal(chunk.nr_free, 0);
	}
}

/* --- mappings --------------------------------------------------------------------------------- */

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

/* Where PAGE_HUGE_FROM was reached is the only border. */
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

/* Where advice would need too many mappings, chunks keep the one that they have. */
static void splits_stay_below_the_limit(void **state)
{
	size_t most = huge_most_splits();

	(void)state;
	take_all();
	huge_splits.most = page_usage().splits + 3;
	give_parts();
	page_trim();
	assert_in_range(page_usage().splits, huge_splits.most - 1, huge_splits.most);
	counted_as_the_system_does();
	for (unsigned int i = 0; i < CHUNKS; i++) {
		if (i % 2)
			page_free(first[i], HALF);
		page_free(second[i], HALF);
	}
	counted_as_the_system_does();
	huge_splits.most = most;
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
	while (range_chunk(&ranges[0], (size_t)(first[i] - pages.slabs) / CHUNK_PAGES)->advice !=
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
		assert_true(page_usage().dirty <= page_bound() + OS_HUGE / 2);
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
	assert_true(page_usage().dirty > page_bound());
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

/* The system would not join it with its neighbours. */
static void a_whole_chunk_stays_advised(void **state)
{
	size_t most = page_usage().most_splits, splits;

	(void)state;
	take_all();
	for (unsigned int i = 0; i < CHUNKS; i++)
		page_free(first[i], HALF);
	page_trim();
	huge_splits.most = splits = page_usage().splits;
	for (unsigned int i = 0; i < CHUNKS; i++) {
		page_free(second[i], HALF);
		assert_true(page_usage().splits <= splits);
	}
	huge_splits.most = most;
	page_trim();
	assert_int_equal(page_usage().dirty, 0);
	counted_as_the_system_does();
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
	assert_true(page_usage().dirty > 2 * page_bound());
	return most;
}

/* Memory that could not be returned can be when its chunk is free; perhaps later, because much was
 * freed recently. */
static void parts_that_could_not_go_go_later(void **state)
{
	size_t most = bytes_kept_in_parts(), dirty;
	struct slab *others[CHUNKS];
	unsigned int n = 0;

	(void)state;
	/* A small range, below a limit on addresses, has no room for all of them. */
	while (n < CHUNKS && (others[n] = page_alloc(0, PAGE_MAX_ORDER)) != NULL)
		n++;
	while (n > 0)
		page_free(others[--n], PAGE_MAX_ORDER);
	for (unsigned int i = 0; i < CHUNKS; i++)
		page_free(second[i], HALF);
	/* With slub_tiny they are returned immediately, and with little memory, in part. */
	if (os_options.tiny || os.memory / 16 / os.nr_cpu_nodes > CHUNKS * OS_HUGE)
		assert_int_equal(page_usage().dirty > CHUNKS * OS_HUGE, !os_options.tiny);
	pages_let_time_pass();
	pages_free_some(8 * CHUNKS * OS_HUGE / PAGE_DISCARD_MAX);
	dirty = page_usage().dirty;
	page_trim();
	huge_splits.most = most;
	assert_true(dirty <= page_bound());
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
	/* Once, as less may stay when less is in use. */
	assert_true(looked <= ranges[0].nr_chunks);
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
	if (!half || page_alloc(0, HALF) != half + CHUNK_PAGES / 2)
		return -1;
	/* From now on, huge pages are advised. */
	for (size_t i = 0; i < PAGE_HUGE_FROM / OS_HUGE; i++)
		if (!page_alloc(0, PAGE_MAX_ORDER))
			return -1;
	return 0;
}

int test_chunk(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_operations),
		cmocka_unit_test(every_order_fills),
		cmocka_unit_test(growth_splits_nothing),
		cmocka_unit_test(whole_again),
		cmocka_unit_test(splits_stay_below_the_limit),
		cmocka_unit_test(used_whole),
		cmocka_unit_test(free_chunks_stay_below_the_limit),
		cmocka_unit_test(beyond_the_budget),
		cmocka_unit_test(a_whole_chunk_stays_advised),
		cmocka_unit_test(parts_that_could_not_go_go_later),
		cmocka_unit_test(parts_that_cannot_go_are_left_alone),
	};

	return cmocka_run_group_tests_name("chunk", tests, setup, NULL);
}
