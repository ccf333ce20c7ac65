/* SPDX-License-Identifier: MIT */
/* Recently used pages stay, up to limits: all of them for a short time, then fewer along a curve.
 * Each call returns a bounded part of the rest to the system, whole chunks first. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "internal/decay/calls.h"
#include "internal/kit/pages.h"
#include "internal/kit/ready.h"
#include "kit/random.h"
#include "kit/unit.h"
#include "os/options/options.h"
#include "page/limit.h"
#include "page/map_kept.h"
#include "page/page.h"
#include "page/range.h"

enum {
	LARGE = 9,				/* order of a chunk */
	MOST = 256 << 20,			/* decay_most */
	DECAY = 10000,				/* decay, in ms */
	LATELY = DECAY / DECAY_LATELY,		/* all of them stay this long, in ms, */
	PART = LATELY / DECAY_LATELY_PARTS + 1, /* and at most this much longer */
	MANY = MOST / OS_HUGE + 64,
	CALLS = 2 + 2 * MANY / (PAGE_DISCARD_MAX / OS_HUGE)
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

/* How much of the recently freed memory must stay: nothing with slub_tiny. */
static size_t stays(size_t bytes)
{
	return os_options.tiny ? 0 : bytes;
}

/* All memory that can be returned was returned, and none was used recently. */
static void begin(void)
{
	os.memory = SIZE_MAX;
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

/* What is left of it after this time (ms), if calls see it pass in this many steps. Less what
 * always stays. Up to decay_most may stay. */
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
		/* When memory no longer stays just because it was freed recently. */
		assert_true(left_after(LATELY + 2 * PART, calls) > bytes * 2 / 10);
		assert_true(left_after(LATELY + 2 * PART, calls) < bytes * 5 / 10);
		assert_true(left_after(DECAY / 2, calls) < bytes * 2 / 10);
		assert_true(left_after(DECAY + DECAY / 50, calls) <= bytes / 100 + OS_HUGE);
	}
}

static void pass_in_calls(unsigned int ms, unsigned int calls)
{
	for (unsigned int i = 0; i < calls; i++) {
		clock_pass_ms(ms / calls);
		pages_free_some(1);
	}
}

/* After a burst of frees, more than decay_most stays for a moment. */
static void a_freed_heap_stays_whole(void **state)
{
	size_t bytes = MANY * OS_HUGE;

	(void)state;
	for (unsigned int calls = 1; calls <= 100; calls *= 10) {
		begin();
		take(MANY, LARGE);
		give(MANY, LARGE);
		assert_true(dirty() >= stays(bytes));
		pass_in_calls(LATELY - calls * DECAY_TICK_MS, calls);
		assert_true(dirty() >= stays(bytes));
		pass_in_calls(PART, 1);
		pages_free_some(CALLS);
		assert_true(dirty() <= MOST + PAGE_KEEP_PARTS);
	}
}

/* Those that were freed before that time go. */
static void of_a_slow_burst_the_last_part_stays(void **state)
{
	enum {
		STEP = 500, /* ms */
		CHUNKS = MANY / 4
	};
	const unsigned int young = LATELY / STEP * CHUNKS, most = young + 2 * CHUNKS;

	(void)state;
	if (os_options.tiny || os.nr_cpu_nodes > 1)
		skip();
	begin();
	take(2 * MANY, LARGE);
	for (unsigned int i = 0; i < 2 * MANY; i += CHUNKS) {
		for (unsigned int k = i; k < i + CHUNKS; k++)
			page_free(runs[k], LARGE);
		assert_true(i + CHUNKS < young || dirty() >= young * OS_HUGE);
		pass_in_calls(STEP - 10 * DECAY_TICK_MS, 10);
	}
	assert_true(dirty() <= most * OS_HUGE + PAGE_KEEP_CHUNKS);
	page_trim();
}

/* Memory that is allocated and freed again and again does not count as more free memory. */
static void older_memory_goes_beside_a_steady_load(void **state)
{
	(void)state;
	begin();
	take(MANY, LARGE);
	give(MANY, LARGE);
	for (unsigned int i = 0; i < 100; i++) {
		take(MANY / 4, LARGE);
		give(MANY / 4, LARGE);
		clock_pass_ms((LATELY + PART) / 100 + 1);
	}
	pages_free_some(CALLS);
	assert_true(dirty() <= MOST + PAGE_KEEP_PARTS);
}

/* Free memory that may stay after a burst, with these limits. */
static size_t kept_of_a_burst(size_t memory, size_t hard)
{
	size_t bytes;

	begin();
	os.memory = memory;
	take(MANY, LARGE);
	page_set_limits(0, hard);
	give(MANY, LARGE);
	bytes = dirty();
	page_set_limits(0, 0);
	page_trim();
	return bytes;
}

static void a_burst_leaves_memory_to_others(void **state)
{
	size_t always = PAGE_KEEP_CHUNKS, wanted = MOST + 32 * OS_HUGE, bytes;
	uint32_t most = os_options.decay_most;

	(void)state;
	wanted /= os.nr_cpu_nodes;
	bytes = kept_of_a_burst(8 * wanted * os.nr_cpu_nodes, 0);
	assert_true(bytes <= wanted + always && bytes >= stays(wanted));
	bytes = kept_of_a_burst(SIZE_MAX, 8 * wanted * os.nr_cpu_nodes);
	assert_true(bytes <= wanted + always && bytes >= stays(wanted));
	/* On a small machine, an eighth; and what always stays is less, too. */
	bytes = kept_of_a_burst(64 << 20, 0);
	assert_true(bytes <= (8 << 20) + (2 << 20) && bytes >= stays((8 << 20) / os.nr_cpu_nodes));
	os_options.decay_most = 16 * os.nr_cpu_nodes;
	bytes = kept_of_a_burst(SIZE_MAX, 0);
	assert_true(bytes <= 16 * (16 << 20) + always && bytes >= stays(16 * (16 << 20)));
	os_options.decay_most = 0;
	assert_true(kept_of_a_burst(SIZE_MAX, 0) <= always);
	/* The program's own value is obeyed, up to half of memory. */
	os_options.decay_most = 64 * os.nr_cpu_nodes;
	wanted = (size_t)os_options.decay_most << 20;
	bytes = kept_of_a_burst(4 * wanted, 0);
	assert_true(bytes <= wanted + always && bytes >= stays(wanted / os.nr_cpu_nodes));
	bytes = kept_of_a_burst(wanted, 0);
	assert_true(bytes <= wanted / 2 + always && bytes >= stays(wanted / 2 / os.nr_cpu_nodes));
	os_options.decay_most = most;
}

static void time_passes_in_a_free(void)
{
	clock_pass_ms(PART);
	page_free(page_alloc(0, 0), 0);
}

/* A round unmaps a block first, which takes a while: what others freed meanwhile is not old. */
static void a_long_round_forgets_nothing(void **state)
{
	(void)state;
	begin();
	assert_true(map_free(map_alloc(3 << 20, 1, 0, false)));
	if (!map_kept_bytes() || os_options.tiny)
		skip();
	clock_pass_ms(DECAY / 4);
	take(64, LARGE);
	give(64, LARGE);
	meanwhile = time_passes_in_a_free;
	page_decay(0);
	assert_null(meanwhile);
	assert_int_equal(map_kept_bytes(), 0);
	assert_true(dirty() >= 64 * OS_HUGE);
}

/* The thread's rounds, each of which returns at most PAGE_DISCARD_MAX, follow each other until all
 * is returned. */
static void rounds_say_that_more_must_go(void **state)
{
	unsigned int rounds = 0;

	(void)state;
	begin();
	os_options.decay = 0;
	os_store_relaxed(&decay_time.by_thread, 1);
	take(MANY, LARGE);
	give(MANY, LARGE);
	assert_true(dirty() >= MANY * OS_HUGE);
	for (clock_pass_ms(DECAY_TICK_MS); page_decay(0); clock_pass_ms(DECAY_TICK_MS))
		rounds++;
	assert_in_range(rounds, 1, CALLS);
	assert_true(dirty() <= PAGE_KEEP_CHUNKS);
	os_store_relaxed(&decay_time.by_thread, 0);
	os_options.decay = DECAY;
}

/* Above the soft limit, nothing waits. */
static void a_burst_goes_when_memory_is_short(void **state)
{
	(void)state;
	begin();
	take(MANY, LARGE);
	give(MANY, LARGE);
	page_set_limits(1, 0);
	pages_free_some(CALLS);
	assert_int_equal(dirty(), 0);
	page_set_limits(0, 0);
	take(MANY, LARGE);
	page_press(true);
	give(MANY, LARGE);
	pages_free_some(CALLS);
	assert_int_equal(dirty(), 0);
	page_press(false);
}

/* Exactly, by the arithmetic alone. */
static void the_peak_of_any_time(void **state)
{
	(void)state;
	for (uint32_t ms = 1; ms <= 3600000; ms = ms * 3 + 1)
		for (uint32_t calls = 1; calls <= 1000; calls *= 10) {
			uint32_t now = UINT32_MAX - 5, lately = ms / DECAY_LATELY,
				 part = lately / DECAY_LATELY_PARTS + 1;
			struct decay decay = {.began = now};

			assert_int_equal(decay_lately(&decay, 1000, 600, now, ms), 400);
			for (uint32_t i = 1; i <= calls; i++)
				assert_int_equal(
					decay_lately(&decay, 500, 500,
						     now + (uint32_t)((uint64_t)lately * i / calls),
						     ms),
					500);
			now += lately + part + DECAY_LATELY_PARTS;
			assert_int_equal(decay_lately(&decay, 500, 500, now, ms), 0);
		}
}

/* Exactly, by the arithmetic alone. */
static void the_curve_of_any_time(void **state)
{
	(void)state;
	/* DECAY-E2 */
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

/* Immediately, or never. */
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
	/* The thread need not wake again for it. */
	assert_false(page_decay(0));
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

/* Parts of chunks that may stay leave whole chunks their own limit, and no more than that. */
static void parts_do_not_send_whole_chunks_away(void **state)
{
	size_t returned;

	(void)state;
	if (os_options.tiny)
		skip();
	begin();
	take(16, LARGE - 1);
	for (unsigned int i = 0; i < 16; i += 2)
		page_free(runs[i], LARGE - 1);
	pages_let_time_pass();
	pages_free_some(2);
	assert_true(dirty() >= 8 * OS_HUGE / 2);
	returned = page_usage().returned;
	page_free(page_alloc(0, LARGE), LARGE);
	pages_let_time_pass();
	page_free(page_alloc(0, LARGE), LARGE);
	assert_int_equal(page_usage().returned, returned);
	for (unsigned int i = 16; i < 20; i++)
		runs[i] = page_alloc(0, LARGE);
	for (unsigned int i = 16; i < 20; i++)
		page_free(runs[i], LARGE);
	pages_let_time_pass();
	page_decay(0);
	assert_true(ranges[0].whole << OS_PAGE_SHIFT <= PAGE_KEEP_CHUNKS);
	for (unsigned int i = 1; i < 16; i += 2)
		page_free(runs[i], LARGE - 1);
}

static size_t count_whole(const struct range *range)
{
	size_t n = 0;

	for (uint32_t i = 0; i < range->nr_chunks; i++)
		n += range_whole_of(&range->chunks[i]);
	return n;
}

static void whole_chunks_are_counted(void **state)
{
	unsigned int orders[16];
	uint64_t seed = 11;

	(void)state;
	begin();
	take(16, LARGE);
	for (unsigned int i = 0; i < 16; i++)
		orders[i] = LARGE;
	for (unsigned int round = 0; round < 3000; round++) {
		unsigned int i = random_below(&seed, 16);

		if (random_below(&seed, 8) == 0)
			page_give_back(runs[i], orders[i]);
		else
			page_free(runs[i], orders[i]);
		clock_pass_ms(random_below(&seed, 500));
		if (random_below(&seed, 8) == 0)
			page_decay(0);
		if (random_below(&seed, 64) == 0)
			page_trim_to(random_below(&seed, 16) << 20);
		/* Below a hard limit, pages that are held already are taken, or none. */
		orders[i] = random_below(&seed, 2) ? LARGE : random_below(&seed, LARGE);
		page_set_limits(0, random_below(&seed, 2) ? 1 : 0);
		runs[i] = page_alloc(0, orders[i]);
		page_set_limits(0, 0);
		if (!runs[i])
			runs[i] = page_alloc(0, orders[i]);
		assert_non_null(runs[i]);
		assert_int_equal(ranges[0].whole, count_whole(&ranges[0]));
	}
	for (unsigned int i = 0; i < 16; i++)
		page_free(runs[i], orders[i]);
}

static void no_more_than_the_limit_stays(void **state)
{
	(void)state;
	/* PAGE-P4 */
	begin();
	os.memory = 8 * (size_t)MOST;
	take(MANY, LARGE);
	for (unsigned int i = 0; i < MANY; i++) {
		page_free(runs[i], LARGE);
		assert_true(dirty() <= MOST / os.nr_cpu_nodes + PAGE_KEEP_CHUNKS);
	}
	assert_true(dirty() >= stays(MOST / os.nr_cpu_nodes));
	pages_let_time_pass();
	pages_free_some(CALLS);
}

/* Half of each chunk, so that no whole chunk can be returned. */
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

/* A flush frees the last objects of many slabs; also while pages return slowly. */
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

int test_curve(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_freed_lately_stays),
		cmocka_unit_test(a_freed_heap_stays_whole),
		cmocka_unit_test(of_a_slow_burst_the_last_part_stays),
		cmocka_unit_test(older_memory_goes_beside_a_steady_load),
		cmocka_unit_test(a_burst_leaves_memory_to_others),
		cmocka_unit_test(a_long_round_forgets_nothing),
		cmocka_unit_test(rounds_say_that_more_must_go),
		cmocka_unit_test(a_burst_goes_when_memory_is_short),
		cmocka_unit_test(the_peak_of_any_time),
		cmocka_unit_test(the_curve),
		cmocka_unit_test(the_curve_of_any_time),
		cmocka_unit_test(the_curve_in_percent),
		cmocka_unit_test(a_trim_begins_a_curve),
		cmocka_unit_test(no_time_and_no_end),
		cmocka_unit_test(whole_chunks_go_first),
		cmocka_unit_test(parts_do_not_send_whole_chunks_away),
		cmocka_unit_test(whole_chunks_are_counted),
		cmocka_unit_test(no_more_than_the_limit_stays),
		cmocka_unit_test(one_call_gives_back_a_part),
		cmocka_unit_test(many_frees_at_once_give_back_a_part),
	};

	return cmocka_run_group_tests_name("decay-curve", tests, setup, NULL);
}
