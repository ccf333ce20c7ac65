/* SPDX-License-Identifier: MIT */
/* Memory returns to the system as time passes, even in calls that free no page. */
#include <stdbool.h>
#include <stdint.h>

#include "cache/cache.h"
#include "internal/kit/pages.h"
#include "kit/cache.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "page/page.h"

enum {
	DECAY = 10000, /* ms */
	LARGE = 9,     /* order of 2 MiB */
	CHUNKS = 32,
	HEAP = 512,
	MANY = 4096, /* objects: more than sheaves hold */
};

static struct kmem_cache *s;
static void *objects[MANY];

static size_t dirty_before;

/* No call returns more than one round and its own frees do, each within this bound. */
static void see_call(void)
{
	size_t now = page_usage().dirty;

	assert_true(now + 2 * PAGE_DISCARD_MAX >= dirty_before);
	dirty_before = now;
}

/* Slow paths that free no page: the objects stay in sheaves. */
static void call_slow_paths(void)
{
	dirty_before = page_usage().dirty;
	for (unsigned int i = 0; i < MANY / 8; i++) {
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
		see_call();
	}
	for (unsigned int i = 0; i < MANY / 8; i++) {
		kmem_cache_free(s, objects[i]);
		see_call();
	}
}

static void call_for_ms(unsigned int ms)
{
	for (unsigned int i = 0; i < ms; i += DECAY_TICK_MS) {
		clock_pass_ms(DECAY_TICK_MS);
		call_slow_paths();
	}
}

static void use_and_free(unsigned int chunks)
{
	static struct slab *runs[HEAP];

	for (unsigned int i = 0; i < chunks; i++)
		runs[i] = page_alloc(0, LARGE);
	for (unsigned int i = 0; i < chunks; i++)
		page_free(runs[i], LARGE);
}

static void free_pages_go_back_in_any_slow_call(void **state)
{
	size_t before, begin;

	(void)state;
	if (os_options.tiny)
		skip();
	clock_stands = true;
	call_for_ms(2 * DECAY);
	page_trim();
	begin = page_usage().used;
	use_and_free(CHUNKS);
	before = page_usage().dirty;
	assert_true(before >= CHUNKS * OS_HUGE);
	/* For a moment nothing is returned, ... */
	call_slow_paths();
	assert_true(page_usage().dirty >= CHUNKS * OS_HUGE);
	call_for_ms(DECAY / DECAY_LATELY - DECAY_TICK_MS);
	assert_true(page_usage().dirty >= CHUNKS * OS_HUGE);
	/* ... half of it in a quarter of the time, ... */
	call_for_ms(DECAY / 4 - DECAY / DECAY_LATELY + 2 * DECAY_TICK_MS);
	assert_true(page_usage().dirty < before * 3 / 4);
	assert_true(page_usage().dirty > before / 4);
	/* ... and in the end everything but what may always stay. */
	call_for_ms(DECAY);
	assert_true(page_usage().dirty <= PAGE_KEEP_CHUNKS + CHUNKS * OS_HUGE / 100);
	/* The system may have given this thread another index, whose slot takes memory. */
	assert_true(page_usage().used < begin + OS_HUGE);
}

static void nothing_goes_while_nothing_is_called(void **state)
{
	size_t before;

	(void)state;
	if (os_options.tiny)
		skip();
	use_and_free(CHUNKS);
	before = page_usage().dirty;
	clock_pass_ms(100 * DECAY);
	assert_int_equal(page_usage().dirty, before);
	call_slow_paths();
	assert_true(page_usage().dirty < before);
}

/* Each slow call after a pause does a round, until all that is due is returned. */
static void a_large_heap_goes_soon_after_a_pause(void **state)
{
	size_t most = PAGE_KEEP_CHUNKS + HEAP * OS_HUGE / 100;
	unsigned int turns = 0;

	(void)state;
	if (os_options.tiny)
		skip();
	os.memory = SIZE_MAX;
	use_and_free(HEAP);
	assert_true(page_usage().dirty >= HEAP * OS_HUGE);
	clock_pass_ms(2 * DECAY);
	while (page_usage().dirty > most && turns++ < 20)
		call_slow_paths();
	assert_true(page_usage().dirty <= most);
}

static int set_up(void **state)
{
	(void)state;
	pin((unsigned int)sched_getcpu());
	s = make("decay", 64, SLAB_NO_USER_FLAGS);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(free_pages_go_back_in_any_slow_call),
		cmocka_unit_test(nothing_goes_while_nothing_is_called),
		cmocka_unit_test(a_large_heap_goes_soon_after_a_pause),
	};

	return cmocka_run_group_tests_name("decay", tests, set_up, NULL);
}
