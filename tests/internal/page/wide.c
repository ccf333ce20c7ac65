/* SPDX-License-Identifier: MIT */
/* Runs of several chunks (PAGE-P2): where they are, and what is used for them. */
#include "page/page.h"

#include <stdint.h>
#include <string.h>

#include "internal/kit/ready.h"
#include "kit/needs.h"
#include "kit/random.h"
#include "kit/unit.h"
#include "os/machine.h"
#include "page/limit.h"
#include "page/range.h"

enum {
	RUNS = 40,
	STEPS = 3000,
	PAIR = PAGE_MAX_ORDER + 1,
	SINGLES = 300, /* chunks: more than twice the pairs that a search looks at */
	WIDE = 10,
	FILL = 1000,
};

static struct slab_cache *const owner = (struct slab_cache *)&ranges;

static struct {
	struct slab *slab;
	unsigned int order;
} runs[RUNS];

static size_t number_of(const struct slab *slab)
{
	return (size_t)(slab - pages.slabs);
}

static void check_run(struct slab *slab, unsigned int order)
{
	size_t first = number_of(slab), length = (size_t)1 << order;

	assert_int_equal((uintptr_t)page_address(slab) % (length * OS_PAGE), 0);
	for (int i = 0; i < RUNS; i++)
		if (runs[i].slab)
			assert_true(first + length <= number_of(runs[i].slab) ||
				    number_of(runs[i].slab) + ((size_t)1 << runs[i].order) <=
					    first);
}

static void take(int i, unsigned int order)
{
	struct slab *slab = page_alloc(0, order);

	assert_non_null(slab);
	check_run(slab, order);
	page_own(slab, order, owner);
	page_address(slab)[0] = 1;
	page_address(slab)[(OS_PAGE << order) - 1] = 1;
	assert_ptr_equal(page_slab(page_address(slab) + (OS_PAGE << order) - 1), slab);
	assert_ptr_equal(page_owner(page_address(slab) + (OS_PAGE << order) / 2), owner);
	runs[i].slab = slab;
	runs[i].order = order;
}

static void give(int i, void (*how)(struct slab *slab, unsigned int order))
{
	char *last = page_address(runs[i].slab) + (OS_PAGE << runs[i].order) - 1;

	how(runs[i].slab, runs[i].order);
	assert_null(page_owner(last));
	runs[i].slab = NULL;
}

/* Of a half, one, two and four chunks. */
static void random_runs(void **state)
{
	size_t used = page_usage().used;
	uint64_t seed = 1;

	(void)state;
	for (int step = 0; step < STEPS; step++) {
		int i = (int)random_below(&seed, RUNS);

		if (!runs[i].slab)
			take(i, PAGE_WIDE_ORDER - random_below(&seed, 4));
		else
			give(i, random_below(&seed, 4) ? page_free : page_free_to_system);
	}
	for (int i = 0; i < RUNS; i++)
		if (runs[i].slab)
			give(i, page_free);
	assert_int_equal(page_usage().used, used);
	page_trim();
	assert_int_equal(page_usage().dirty, 0);
}

/* Beyond many places of which one half is in use, free neighbours are found after some calls that
 * use new addresses. */
static void free_neighbours_are_found(void **state)
{
	static struct slab *fill[FILL], *single[SINGLES], *wide[WIDE], *last[WIDE];
	unsigned int n = 0;
	struct slab *first, *half[2];
	uint32_t before = ranges[0].nr_chunks;

	(void)state;
	if ((size_t)1 << pages.range_shift < (2 * SINGLES * OS_PAGE) << PAGE_MAX_ORDER) {
		print_message("skipped: a node has too few addresses here\n");
		skip();
	}
	/* All that is free. */
	while (ranges[0].nr_chunks == before && n < FILL)
		assert_non_null(fill[n++] = page_alloc(0, PAGE_MAX_ORDER));
	assert_true(n < FILL);
	assert_non_null(first = page_alloc(0, PAIR));
	for (int i = 0; i < SINGLES; i++)
		assert_non_null(single[i] = page_alloc(0, PAGE_MAX_ORDER));
	for (int i = 0; i < WIDE; i++)
		assert_non_null(wide[i] = page_alloc(0, PAIR));
	for (int i = 0; i < WIDE; i++)
		page_free(wide[i], PAIR);
	/* The next search begins here, where two others are now. */
	page_free(first, PAIR);
	for (int i = 0; i < 2; i++) {
		assert_non_null(half[i] = page_alloc(0, PAGE_MAX_ORDER));
		assert_int_equal(number_of(half[i]) >> PAIR, number_of(first) >> PAIR);
	}
	for (int i = 0; i < SINGLES; i++)
		if (number_of(single[i]) >> PAGE_MAX_ORDER & 1)
			page_free(single[i], PAGE_MAX_ORDER);
	before = ranges[0].nr_chunks;
	for (int i = 0; i < WIDE; i++)
		assert_non_null(last[i] = page_alloc(0, PAIR));
	assert_true(ranges[0].nr_chunks - before <= WIDE);
	for (int i = 0; i < WIDE; i++)
		page_free(last[i], PAIR);
	for (int i = 0; i < SINGLES; i++)
		if (!(number_of(single[i]) >> PAGE_MAX_ORDER & 1))
			page_free(single[i], PAGE_MAX_ORDER);
	for (int i = 0; i < 2; i++)
		page_free(half[i], PAGE_MAX_ORDER);
	while (n)
		page_free(fill[--n], PAGE_MAX_ORDER);
}

/* A refused run takes nothing. */
static void at_the_hard_limit(void **state)
{
	struct page_usage before;
	size_t held;

	(void)state;
	page_trim();
	before = page_usage();
	held = os_load_relaxed(&page_limit.held);
	page_set_limits(0, (held << OS_PAGE_SHIFT) + (3u << 20));
	assert_null(page_alloc(0, PAGE_MAX_ORDER + 1));
	assert_int_equal(os_load_relaxed(&page_limit.held), held);
	assert_int_equal(page_usage().used, before.used);
	page_set_limits(0, 0);
	take(0, PAGE_MAX_ORDER + 1);
	give(0, page_free_to_system);
	assert_int_equal(page_usage().used, before.used);
}

static void limit_to(size_t held)
{
	page_set_limits(0, held << OS_PAGE_SHIFT);
}

/* LIMIT-H2: the search begins at a run that the limit refuses; another one is held already. */
static void a_held_run_is_found_at_the_hard_limit(void **state)
{
	struct slab *held;

	(void)state;
	needs(NEED_KEPT_PAGES);
	page_trim();
	take(0, PAIR);
	take(1, PAIR);
	held = runs[1].slab;
	give(1, page_free);
	give(0, page_free_to_system);
	limit_to(os_load_relaxed(&page_limit.held));
	take(0, PAIR);
	assert_ptr_equal(runs[0].slab, held);
	page_set_limits(0, 0);
	give(0, page_free_to_system);
}

/* Of a run at the end of the range, only new chunks count; a run that is refused makes none. */
static void a_half_at_the_end_is_held_already(void **state)
{
	static struct slab *fill[FILL];
	uint32_t before = ranges[0].nr_chunks;
	unsigned int n = 0;
	size_t held;

	(void)state;
	needs(NEED_KEPT_PAGES);
	while (ranges[0].nr_chunks == before || ranges[0].nr_chunks % 2 == 0) {
		assert_true(n < FILL);
		assert_non_null(fill[n++] = page_alloc(0, PAGE_MAX_ORDER));
	}
	before = ranges[0].nr_chunks;
	page_free(fill[--n], PAGE_MAX_ORDER);
	held = os_load_relaxed(&page_limit.held);
	limit_to(held + CHUNK_PAGES - 1);
	assert_null(page_alloc(0, PAIR));
	assert_int_equal(os_load_relaxed(&page_limit.held), held);
	assert_int_equal(ranges[0].nr_chunks, before);
	limit_to(held + CHUNK_PAGES);
	take(0, PAIR);
	assert_int_equal(number_of(runs[0].slab) / CHUNK_PAGES, before - 1);
	assert_int_equal(os_load_relaxed(&page_limit.held), held + CHUNK_PAGES);
	page_set_limits(0, 0);
	give(0, page_free);
	while (n)
		page_free(fill[--n], PAGE_MAX_ORDER);
}

int test_wide(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_runs),
		cmocka_unit_test(a_half_at_the_end_is_held_already),
		cmocka_unit_test(free_neighbours_are_found),
		cmocka_unit_test(at_the_hard_limit),
		cmocka_unit_test(a_held_run_is_found_at_the_hard_limit),
	};

	return cmocka_run_group_tests_name("wide", tests, setup, NULL);
}
