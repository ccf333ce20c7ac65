/* SPDX-License-Identifier: MIT */
/* Pages that were in use lately stay, up to a limit; they go back on a curve of time, a bounded
 * part in each call, whole chunks first. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "kit/pages.h"
#include "kit/ready.h"
#include "kit/unit.h"
#include "os/options.h"
#include "page/page.h"
#include "page/range.h"

enum {
	LARGE = 9,	  /* order of a chunk */
	MOST = 256 << 20, /* decay_most */
	DECAY = 10000,	  /* decay, in ms */
	MANY = MOST / OS_HUGE + 64,
	CALLS = 2 + 2 * MANY / (PAGE_DISCARD_MAX / OS_HUGE)
};

static struct slab *runs[MANY * 2];
static unsigned int madvise_ms; /* what each call takes, beyond the test's time */

int madvise(void *address, size_t size, int advice)
{
	clock_pass_ms(madvise_ms);
	return (int)syscall(SYS_madvise, address, size, advice);
}

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
	/* Soon after, nearly all of it. */
	clock_pass_ms(DECAY / DECAY_STEPS);
	pages_free_some(1);
	assert_true(dirty() >= stays(bytes - bytes / 20));
	pages_let_time_pass();
	pages_free_some(CALLS);
	assert_true(dirty() <= PAGE_KEEP_PARTS);
}

/* What is left of it after these milliseconds, if a call sees them pass in so many steps; with
 * decay_most it may stay, and what always stays is left out. */
static size_t left_after(unsigned int ms, unsigned int calls)
{
	const size_t always = PAGE_KEEP_CHUNKS;

	begin();
	take(64, LARGE);
	give(64, LARGE);
	for (unsigned int i = 0; i < calls; i++) {
		clock_pass_ms(ms / calls);
		for (uint32_t node = 0; node < os.nr_nodes; node++)
			page_decay(node);
	}
	for (unsigned int i = 0; i < CALLS; i++) {
		clock_pass_ms(DECAY_TICK_MS);
		page_decay(0);
	}
	return dirty() > always ? dirty() - always : 0;
}

static void the_curve(void **state)
{
	const size_t bytes = 64 * OS_HUGE;

	(void)state;
	if (os_options.tiny)
		skip();
	for (unsigned int calls = 1; calls <= 100; calls *= 10) {
		assert_true(left_after(DECAY / 10, calls) > bytes * 7 / 10);
		assert_true(left_after(DECAY / 4, calls) > bytes * 3 / 10);
		assert_true(left_after(DECAY / 4, calls) < bytes * 6 / 10);
		assert_true(left_after(DECAY / 2, calls) < bytes * 2 / 10);
		assert_true(left_after(DECAY + DECAY / 50, calls) <= bytes / 100 + OS_HUGE);
	}
}

/* Exactly, by the arithmetic alone. */
static void the_curve_of_any_time(void **state)
{
	(void)state;
	for (uint32_t ms = 1; ms <= 3600000; ms = ms * 3 + 1)
		for (uint32_t calls = 1; calls <= 1000; calls *= 10) {
			struct decay decay = {.since = UINT32_MAX - 5};
			uint32_t now = decay.since;
			size_t kept = 0;

			decay_used(&decay, 1000000);
			for (uint32_t i = 1; i <= calls; i++)
				kept = decay_kept(&decay, 0,
						  now + (uint32_t)((uint64_t)ms * i / calls), ms);
			/* Steps begin at whole milliseconds. */
			assert_true(kept <= 10000 || (ms < 6400 && calls > 1));
			kept = decay_kept(&decay, 0, now + 3 * ms + 3, ms);
			assert_true(kept <= 10000);
			assert_true(decay_kept(&decay, 500, now + 3 * ms + 3, ms) == 0 ||
				    decay.slow > 500);
		}
}

/* As the documents say. */
static void the_curve_in_percent(void **state)
{
	const struct {
		uint32_t ms;
		size_t percent;
	} at[] = {{1000, 85}, {2500, 48}, {5000, 14}, {10000, 0}};

	(void)state;
	for (unsigned int i = 0; i < sizeof(at) / sizeof(*at); i++) {
		struct decay decay = {.since = 0};

		decay_used(&decay, 1000000);
		assert_int_equal(decay_kept(&decay, 0, at[i].ms, DECAY) / 10000, at[i].percent);
	}
}

/* The time before it does not count. */
static void a_trim_begins_a_curve(void **state)
{
	const size_t keep = 16 * OS_HUGE;

	(void)state;
	if (os_options.tiny)
		skip();
	begin();
	take(64, LARGE);
	give(64, LARGE);
	clock_pass_ms(DECAY - DECAY / 10);
	page_trim_to(keep);
	assert_true(dirty() > keep - OS_HUGE);
	for (unsigned int i = 0; i < CALLS; i++) {
		clock_pass_ms(1);
		page_decay(0);
	}
	assert_true(dirty() > keep - keep / 10);
	page_trim();
}

/* At once, or never. */
static void no_time_and_no_end(void **state)
{
	(void)state;
	begin();
	os_options.decay = 0;
	take(64, LARGE);
	give(64, LARGE);
	assert_true(dirty() <= OS_HUGE);
	os_options.decay = DECAY;
	os_options.decay_never = 1;
	take(64, LARGE);
	give(64, LARGE);
	clock_pass_ms(1000 * DECAY);
	pages_free_some(CALLS);
	assert_true(dirty() >= 64 * OS_HUGE);
	os_options.decay_never = 0;
	page_trim();
	assert_int_equal(dirty(), 0);
}

/* Parts of chunks stay as long as there are free ones. */
static void whole_chunks_go_first(void **state)
{
	size_t splits;

	(void)state;
	begin();
	splits = page_usage().splits;
	take(128, LARGE - 1);
	for (unsigned int i = 0; i < 64; i++)
		page_free(runs[i], LARGE - 1);
	for (unsigned int i = 64; i < 128; i += 2)
		page_free(runs[i], LARGE - 1);
	for (unsigned int i = 0; i < CALLS; i++) {
		clock_pass_ms(DECAY / 20);
		page_decay(0);
		if (page_usage().splits > splits)
			assert_true(dirty() <= 33 * OS_HUGE);
	}
	for (unsigned int i = 65; i < 128; i += 2)
		page_free(runs[i], LARGE - 1);
}

static void no_more_than_the_limit_stays(void **state)
{
	(void)state;
	begin();
	take(MANY, LARGE);
	for (unsigned int i = 0; i < MANY; i++) {
		page_free(runs[i], LARGE);
		assert_true(dirty() <= MOST / os.nr_cpu_nodes + PAGE_KEEP_CHUNKS);
	}
	assert_true(dirty() >= stays(MOST / os.nr_cpu_nodes));
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
		assert_true(before - dirty() <= PAGE_DISCARD_MAX);
		before = dirty();
	}
	assert_true(calls >= 1 || os_options.tiny);
	free_other_halves();
}

/* As when a flush frees the last objects of many slabs, also if pages return slowly. */
static void many_frees_at_once_give_back_a_part(void **state)
{
	size_t before;

	(void)state;
	for (unsigned int ms = 0; ms <= 20; ms += 10) {
		free_halves();
		before = dirty();
		madvise_ms = ms;
		for (int i = 1; i < 256; i++)
			page_free(page_alloc(0, 0), 0);
		madvise_ms = 0;
		assert_true(before - dirty() <= PAGE_DISCARD_MAX + OS_HUGE);
		free_other_halves();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_freed_lately_stays),
		cmocka_unit_test(the_curve),
		cmocka_unit_test(the_curve_of_any_time),
		cmocka_unit_test(the_curve_in_percent),
		cmocka_unit_test(a_trim_begins_a_curve),
		cmocka_unit_test(no_time_and_no_end),
		cmocka_unit_test(whole_chunks_go_first),
		cmocka_unit_test(no_more_than_the_limit_stays),
		cmocka_unit_test(one_call_gives_back_a_part),
		cmocka_unit_test(many_frees_at_once_give_back_a_part),
	};

	return cmocka_run_group_tests_name("lately", tests, setup, NULL);
}
