/* SPDX-License-Identifier: MIT */
/* Pages that were recently in use stay, and page_bound() of the others, up to a limit. Each call
 * returns a bounded part of the rest to the system, whole chunks first. */
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
	LARGE = 9,			/* order of a chunk */
	DECAY = 1000,			/* decay, in ms */
	PART = DECAY / DECAY_PARTS + 1, /* memory stays at most this much longer */
	MANY = 192,			/* chunks */
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

/* What may stay of memory that nobody used recently. */
static size_t always(void)
{
	size_t pages = 0;

	for (uint32_t node = 0; node < os.nr_nodes; node++)
		pages += keep_bound(&ranges[node]);
	return pages << OS_PAGE_SHIFT;
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

static void pass_in_calls(unsigned int ms, unsigned int calls)
{
	for (unsigned int i = 0; i < calls; i++) {
		clock_pass_ms(ms / calls);
		pages_free_some(1);
	}
}

/* A heap that is freed stays whole for that time, and then goes, however often the library is
 * called meanwhile; parts of chunks, too. */
static void a_freed_heap_stays_whole(void **state)
{
	(void)state;
	for (unsigned int order = LARGE - 1; order <= LARGE; order++)
		for (unsigned int calls = 1; calls <= 50; calls *= 7) {
			size_t bytes = MANY * (OS_PAGE << order);

			begin();
			take(MANY, order);
			give(MANY, order);
			assert_true(dirty() >= stays(bytes));
			pass_in_calls(DECAY - 2 * calls * DECAY_TICK_MS, calls);
			assert_true(dirty() >= stays(bytes));
			clock_pass_ms(2 * calls * DECAY_TICK_MS + PART);
			pages_free_some(CALLS);
			assert_true(dirty() <= always());
			assert_true(always() < 4 << 20);
		}
}

static void what_is_used_again_stays(void **state)
{
	size_t returned = 0;

	(void)state;
	begin();
	for (int round = 0; round < 10; round++) {
		take(MANY, LARGE);
		if (!os_options.tiny && round)
			assert_int_equal(page_usage().returned, returned);
		returned = page_usage().returned;
		give(MANY, LARGE);
		clock_pass_ms(DECAY / 2);
		pages_free_some(1);
		assert_true(dirty() >= stays(MANY * OS_HUGE));
	}
}

/* Of memory that was in use in that time, a part stays. */
static void the_bound_follows_the_peak(void **state)
{
	size_t before, most;

	(void)state;
	begin();
	before = page_bound();
	take(MANY, LARGE);
	page_decay(0);
	most = page_bound();
	assert_in_range(most, before + MANY * OS_HUGE / 20, before + MANY * OS_HUGE / 12);
	give(MANY / 2, LARGE);
	clock_pass_ms(DECAY + PART);
	pages_free_some(CALLS);
	assert_in_range(page_bound(), before + MANY * OS_HUGE / 40, before + MANY * OS_HUGE / 24);
	assert_true(dirty() <= page_bound());
	assert_true(dirty() >= stays(MANY * OS_HUGE / 40));
	/* Each CPU that runs the program has a part. */
	os_store_relaxed(&decay_time.cpus, 33);
	page_decay(0);
	assert_in_range(page_bound() - before, MANY * OS_HUGE / 40 + (1 << 20),
			MANY * OS_HUGE / 24 + (2 << 20));
	os_store_relaxed(&decay_time.cpus, 1);
	for (unsigned int i = MANY / 2; i < MANY; i++)
		page_free(runs[i], LARGE);
}

/* Those that were freed before that time go. */
static void of_a_slow_burst_the_last_part_stays(void **state)
{
	enum {
		STEP = 250, /* ms */
		CHUNKS = MANY / 4
	};
	const unsigned int young = DECAY / STEP * CHUNKS, most = young + 2 * CHUNKS;

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
	assert_true(dirty() <= most * OS_HUGE + always());
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
		clock_pass_ms((DECAY + PART) / 100 + 1);
	}
	pages_free_some(CALLS);
	assert_true(dirty() <= MANY / 4 * OS_HUGE + always());
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

/* An eighth of memory, or of the hard limit. */
static void a_burst_leaves_memory_to_others(void **state)
{
	const size_t sizes[] = {MANY * OS_HUGE, 64 << 20, 16 << 20};

	(void)state;
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		size_t most = sizes[i] / 8 / os.nr_cpu_nodes, bytes = kept_of_a_burst(sizes[i], 0);

		/* Whole chunks go. */
		assert_true(bytes <= most && bytes + OS_HUGE >= stays(most));
		if (i > 0)
			continue;
		bytes = kept_of_a_burst(SIZE_MAX, sizes[i]);
		assert_true(bytes <= most && bytes + OS_HUGE >= stays(most));
	}
}

static void time_passes_in_a_free(void)
{
	clock_pass_ms(PART);
	page_free(page_alloc(0, 0), 0);
}

/* A round unmaps a block, which takes a while: what others free meanwhile is not old. */
static void a_long_round_forgets_nothing(void **state)
{
	void *block;

	(void)state;
	begin();
	assert_true(map_free(map_alloc(64 << 20, 1, 0, false)));
	if (!map_kept_bytes() || os_options.tiny)
		skip();
	clock_pass_ms(DECAY);
	take(64, LARGE);
	give(64, LARGE);
	block = map_alloc(8 << 20, 1, 0, false);
	meanwhile = time_passes_in_a_free;
	page_decay(0);
	assert_null(meanwhile);
	assert_int_equal(map_kept_bytes(), 0);
	assert_true(dirty() >= 64 * OS_HUGE);
	assert_true(map_free(block));
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
	assert_true(dirty() <= always());
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
	for (uint32_t ms = 0; ms <= 3600000; ms = ms * 3 + 1)
		for (uint32_t calls = 1; calls <= 1000; calls *= 10) {
			uint32_t now = UINT32_MAX - 5;
			struct decay decay = {.began = now};

			assert_int_equal(decay_peak(&decay, 1000, now, ms), 1000);
			for (uint32_t i = 1; i <= calls; i++)
				assert_int_equal(
					decay_peak(&decay, 500,
						   now + (uint32_t)((uint64_t)ms * i / calls), ms),
					1000);
			now += ms + ms / DECAY_PARTS + DECAY_PARTS + 1;
			assert_int_equal(decay_peak(&decay, 500, now, ms), 500);
			now += 2 * ms + 3 * DECAY_PARTS;
			assert_int_equal(decay_peak(&decay, 100, now, ms), 100);
		}
}

/* The time before the trim does not count. */
static void what_a_trim_leaves_stays_for_a_time(void **state)
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
	assert_true(dirty() > keep - OS_HUGE);
	clock_pass_ms(DECAY + PART);
	page_decay(0);
	assert_true(dirty() <= always());
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
			assert_int_equal(ranges[0].whole, 0);
	}
	for (unsigned int i = 65; i < 128; i += 2)
		page_free(runs[i], LARGE - 1);
}

/* Parts return only if more than may stay is free, and then half of the bound with them. */
static void chunks_are_not_broken_for_little(void **state)
{
	enum {
		ORDER = 4, /* the largest system page */
		RUNS = 2048
	};
	static struct slab *small[RUNS];
	size_t returned;
	unsigned int i;

	(void)state;
	if (os_options.tiny || os.nr_cpu_nodes > 1)
		skip();
	begin();
	for (i = 0; i < RUNS; i++)
		small[i] = page_alloc(0, ORDER);
	pages_let_time_pass();
	page_decay(0);
	returned = page_usage().returned;
	for (i = 0; i < RUNS && page_usage().returned == returned; i += 2) {
		clock_pass_ms(DECAY + PART);
		page_free(small[i], ORDER);
		small[i] = NULL;
	}
	assert_true(i / 2 * (OS_PAGE << ORDER) > always());
	assert_true(dirty() <= always() / 2 + (OS_PAGE << ORDER));
	for (i = 0; i < RUNS; i++)
		if (small[i])
			page_free(small[i], ORDER);
}

static size_t count_whole(const struct range *range)
{
	size_t n = 0;

	for (uint32_t i = 0; i < range->nr_chunks; i++)
		n += range_whole_of(range_chunk(range, i));
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
	const size_t most = MANY / 2 * OS_HUGE;

	(void)state;
	/* PAGE-P4 */
	begin();
	os.memory = 8 * most;
	take(MANY, LARGE);
	for (unsigned int i = 0; i < MANY; i++) {
		page_free(runs[i], LARGE);
		assert_true(dirty() <= most / os.nr_cpu_nodes);
	}
	assert_true(dirty() >= stays(most / os.nr_cpu_nodes - OS_HUGE));
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
	for (before = dirty(); before > always() + MANY * OS_HUGE / 2 / 4; calls++) {
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

int test_keep(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_freed_heap_stays_whole),
		cmocka_unit_test(what_is_used_again_stays),
		cmocka_unit_test(the_bound_follows_the_peak),
		cmocka_unit_test(of_a_slow_burst_the_last_part_stays),
		cmocka_unit_test(older_memory_goes_beside_a_steady_load),
		cmocka_unit_test(a_burst_leaves_memory_to_others),
		cmocka_unit_test(a_long_round_forgets_nothing),
		cmocka_unit_test(rounds_say_that_more_must_go),
		cmocka_unit_test(a_burst_goes_when_memory_is_short),
		cmocka_unit_test(the_peak_of_any_time),
		cmocka_unit_test(what_a_trim_leaves_stays_for_a_time),
		cmocka_unit_test(no_time_and_no_end),
		cmocka_unit_test(whole_chunks_go_first),
		cmocka_unit_test(chunks_are_not_broken_for_little),
		cmocka_unit_test(whole_chunks_are_counted),
		cmocka_unit_test(no_more_than_the_limit_stays),
		cmocka_unit_test(one_call_gives_back_a_part),
		cmocka_unit_test(many_frees_at_once_give_back_a_part),
	};

	return cmocka_run_group_tests_name("decay-keep", tests, setup, NULL);
}
