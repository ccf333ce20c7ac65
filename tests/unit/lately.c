/* SPDX-License-Identifier: MIT */
/* Pages that were freed lately stay, up to a limit; later they go back, a bounded part in each
 * call. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "kit/pages.h"
#include "kit/ready.h"
#include "kit/unit.h"
#include "os/options.h"
#include "page/page.h"
#include "page/range.h"

enum {
	LARGE = 9, /* order of a chunk */
	MANY = PAGE_KEEP_PEAK / OS_HUGE + 64,
	CALLS = 2 + MANY / (PAGE_DISCARD_MAX / OS_HUGE)
};

static struct slab *runs[MANY * 2];

static void take(unsigned int n, unsigned int order)
{
	for (unsigned int i = 0; i < n; i++) {
		runs[i] = page_alloc(0, order);
		assert_non_null(runs[i]);
	}
}

static void give(unsigned int n, unsigned int order)
{
	for (unsigned int i = 0; i < n; i++)
		page_free(runs[i], order);
}

static size_t dirty(void)
{
	return page_usage().dirty;
}

/* What must stay, of what was freed lately: nothing with slub_tiny. */
static size_t stays(size_t bytes)
{
	return os_options.tiny ? 0 : bytes;
}

/* All that can go went back, and nothing was used lately. */
static void begin(void)
{
	clock_stands = true;
	pages_let_time_pass();
	pages_free_some(1);
	page_trim();
}

static void what_was_freed_lately_stays(void **state)
{
	size_t bytes = 64 * OS_HUGE;

	(void)state;
	begin();
	for (int round = 0; round < 3; round++) {
		take(64, LARGE);
		give(64, LARGE);
		assert_true(dirty() >= stays(bytes));
		assert_true(!os_options.tiny || dirty() <= PAGE_KEEP_PARTS);
	}
	/* Less than one time later. */
	clock_pass_ms(PAGE_KEEP_MS - 1 - CALLS * PAGE_DISCARD_MS);
	pages_free_some(CALLS);
	assert_true(dirty() >= stays(bytes));
	pages_let_time_pass();
	pages_free_some(CALLS);
	assert_true(dirty() <= PAGE_KEEP_PARTS);
}

/* The peak counts, not what is used at the end of a time. */
static void the_peak_of_the_time_before_counts(void **state)
{
	(void)state;
	begin();
	take(64, LARGE);
	clock_pass_ms(PAGE_KEEP_MS);
	pages_free_some(1); /* a new time begins */
	give(64, LARGE);
	clock_pass_ms(PAGE_KEEP_MS);
	pages_free_some(CALLS); /* and another one */
	assert_true(dirty() >= stays(64 * OS_HUGE));
	clock_pass_ms(PAGE_KEEP_MS);
	pages_free_some(CALLS);
	assert_true(dirty() <= PAGE_KEEP_PARTS);
}

static void no_more_than_the_limit_stays(void **state)
{
	(void)state;
	begin();
	take(MANY, LARGE);
	for (unsigned int i = 0; i < MANY; i++) {
		page_free(runs[i], LARGE);
		assert_true(dirty() <= PAGE_KEEP_PEAK / os.nr_nodes + PAGE_KEEP_CHUNKS);
	}
	assert_true(dirty() >= stays(PAGE_KEEP_PEAK / os.nr_nodes));
	pages_let_time_pass();
	pages_free_some(CALLS);
}

/* Half of each chunk, so that none is whole and goes back alone. */
static void free_halves(void)
{
	begin();
	take(2 * MANY, LARGE - 1);
	for (unsigned int i = 0; i < 2 * MANY; i += 2)
		page_free(runs[i], LARGE - 1);
	pages_let_time_pass();
}

static void free_other_halves(void)
{
	for (unsigned int i = 1; i < 2 * MANY; i += 2)
		page_free(runs[i], LARGE - 1);
}

/* No program waits long for one free. */
static void one_call_gives_back_a_part(void **state)
{
	size_t before, calls = 0;

	(void)state;
	free_halves();
	for (before = dirty(); before > PAGE_KEEP_PARTS + MANY * OS_HUGE / 2 / 4; calls++) {
		pages_free_some(1);
		assert_true(calls < 2 * CALLS);
		assert_true(before - dirty() <= PAGE_DISCARD_MAX + OS_HUGE);
		before = dirty();
	}
	assert_true(calls >= 1 || os_options.tiny);
	free_other_halves();
}

/* As when a flush frees the last objects of many slabs. */
static void many_frees_at_once_give_back_a_part(void **state)
{
	size_t before;

	(void)state;
	free_halves();
	before = dirty();
	for (int i = 1; i < PAGE_DISCARD_FREES; i++)
		page_free(page_alloc(0, 0), 0);
	assert_true(before - dirty() <= PAGE_DISCARD_MAX + MANY * OS_HUGE / 2 / 4);
	free_other_halves();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_freed_lately_stays),
		cmocka_unit_test(the_peak_of_the_time_before_counts),
		cmocka_unit_test(no_more_than_the_limit_stays),
		cmocka_unit_test(one_call_gives_back_a_part),
		cmocka_unit_test(many_frees_at_once_give_back_a_part),
	};

	return cmocka_run_group_tests_name("lately", tests, setup, NULL);
}
