/* SPDX-License-Identifier: MIT */
/*
 * Memory that the program has locked, as by mlockall(): it stays over time, dirty and held. At a
 * limit, and if the program trims, it is returned. A system older than Linux 5.18 never takes it.
 */
#include <string.h>
#include <sys/mman.h>

#include "internal/decay/calls.h"
#include "internal/kit/pages.h"
#include "internal/kit/ready.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/guard.h"
#include "os/options/options.h"
#include "page/limit.h"
#include "page/page.h"
#include "page/range.h"

enum {
	LARGE = PAGE_MAX_ORDER,
	MANY = 64,
	SOME = 16 /* runs in one chunk */
};

static struct slab *runs[MANY];

static void lock_all(void)
{
	locked = NULL;
	locked_bytes = SIZE_MAX / 2;
}

static void unlock_all(void)
{
	locked_bytes = 0;
}

static size_t dirty(void)
{
	return page_usage().dirty;
}

static void check_held(void)
{
	struct page_usage usage = page_usage();

	assert_int_equal(page_limit.held << OS_PAGE_SHIFT, usage.used + usage.dirty);
}

static bool is_resident(char *address)
{
	unsigned char resident;

	assert_int_equal(mincore(address, os.page_size, &resident), 0);
	return resident & 1;
}

static int begin(void **state)
{
	(void)state;
	unlock_all();
	old_system = false;
	clock_stands = true;
	pages_let_time_pass();
	pages_free_some(1);
	page_trim();
	return 0;
}

/* Allocate and free so many runs, of which each was written. */
static void use(unsigned int n, unsigned int order)
{
	for (unsigned int i = 0; i < n; i++) {
		runs[i] = page_alloc(0, order);
		assert_non_null(runs[i]);
		for (size_t at = 0; at < OS_PAGE << order; at += os.page_size)
			page_address(runs[i])[at] = 1;
	}
	for (unsigned int i = 0; i < n; i++)
		page_free(runs[i], order);
}

static void stays_as_time_passes(void **state)
{
	struct capture captured;

	(void)state;
	capture_begin(&captured);
	lock_all();
	use(MANY, LARGE);
	pages_decay();
	assert_int_equal(dirty(), MANY * OS_HUGE);
	for (unsigned int i = 0; i < MANY; i++)
		assert_true(is_resident(page_address(runs[i])));
	check_held();
	/* It is taken before memory that would be faulted. */
	use(MANY, LARGE);
	assert_int_equal(dirty(), MANY * OS_HUGE);
	/* This is what the program wants. */
	assert_int_equal(capture_end_deferred(&captured), 0);
	unlock_all();
	use(MANY, LARGE);
	pages_decay();
	assert_true(dirty() <= page_bound());
	check_held();
}

static void goes_if_trimmed(void **state)
{
	(void)state;
	lock_all();
	use(MANY, LARGE);
	pages_decay();
	page_trim_to(OS_HUGE);
	assert_int_equal(dirty(), OS_HUGE);
	page_trim();
	assert_int_equal(dirty(), 0);
	for (unsigned int i = 0; i < MANY; i++)
		assert_false(is_resident(page_address(runs[i])));
	check_held();
}

static void goes_above_the_soft_limit(void **state)
{
	(void)state;
	lock_all();
	use(MANY, LARGE);
	pages_decay();
	page_set_limits(OS_HUGE, 0);
	pages_decay();
	assert_true(dirty() <= OS_HUGE);
	assert_false(is_resident(page_address(runs[0])));
	page_set_limits(0, 0);
	check_held();
}

/* Parts of chunks: every second run stays in use. */
static void parts_stay_and_go(void **state)
{
	const unsigned int order = 5;
	struct slab *used[SOME * MANY / 2], *run;
	unsigned int n = 0;
	size_t before;

	(void)state;
	for (; n < SOME * MANY / 2; n++) {
		used[n] = page_alloc(0, order);
		run = page_alloc(0, order);
		assert_true(used[n] && run);
		page_free(run, order);
		runs[n % MANY] = page_alloc(0, order);
		page_free(used[n], order);
		used[n] = runs[n % MANY];
	}
	lock_all();
	before = page_usage().used;
	for (unsigned int i = 0; i < n; i += 2)
		page_free(used[i], order);
	pages_decay();
	assert_true(dirty() >= n / 2 * (OS_PAGE << order));
	check_held();
	page_trim();
	assert_true(dirty() <= page_usage().used * (os.page_size / OS_PAGE - 1));
	check_held();
	for (unsigned int i = 1; i < n; i += 2)
		page_free(used[i], order);
	assert_int_equal(page_usage().used, before - n * (OS_PAGE << order));
}

/* One locked page keeps one chunk: a program may lock an object, and forget it. */
static void one_page_does_not_keep_others(void **state)
{
	(void)state;
	use(MANY, LARGE);
	/* The one that is returned first. */
	locked = page_address(runs[MANY - 1]);
	locked_bytes = os.page_size;
	pages_decay();
	assert_true(dirty() <= OS_HUGE + page_bound());
	check_held();
	page_trim();
	assert_int_equal(dirty(), 0);
}

static void the_system_refuses(struct capture *captured)
{
	lock_all();
	old_system = true;
	capture_begin(captured);
	use(1, LARGE);
	page_trim();
	CHECK(dirty() == OS_HUGE);
	CHECK(capture_end_deferred(captured) == 1);
}

static void with_locks(void)
{
	struct capture captured;

	if (mlock(runs, 1) || !os_locks_memory()) {
		print_message("no memory can be locked here, or the system does not say so\n");
		return;
	}
	the_system_refuses(&captured);
	CHECK(strstr(captured.text, "locked memory") && strstr(captured.text, "Linux 5.18"));
}

static void without_locks(void)
{
	struct capture captured;

	munlockall();
	the_system_refuses(&captured);
	CHECK(!strstr(captured.text, "locked") && strstr(captured.text, "Invalid argument"));
}

/* Old, if memory is locked; a sandbox may give the same error. */
static void the_cause_is_named(void **state)
{
	(void)state;
	assert_int_equal(in_child(with_locks), 0);
	assert_int_equal(in_child(without_locks), 0);
}

static void an_old_system_takes_none(void **state)
{
	struct capture captured;

	(void)state;
	lock_all();
	old_system = true;
	capture_begin(&captured);
	use(MANY, LARGE);
	page_trim();
	page_trim();
	assert_int_equal(dirty(), MANY * OS_HUGE);
	check_held();
	assert_int_equal(capture_end_deferred(&captured), 1);
	unlock_all();
	page_trim();
	assert_int_equal(dirty(), 0);
	check_held();
}

/* A closed page is not read again, so it need not stay. */
static void closed_pages_go(void **state)
{
	char *page = os_reserve(os.page_size);

	(void)state;
	assert_non_null(page);
	assert_true(os_commit(page, os.page_size));
	/* The system does this if memory is locked that the process will get. */
	*page = 1;
	lock_all();
	assert_int_equal(os_guard_begin(page, os.page_size), OS_GUARD_PROTECTION);
	assert_false(is_resident(page));
	assert_true(os_guard_open(page, os.page_size, OS_GUARD_PROTECTION));
	*page = 1;
	assert_true(os_guard_close(page, os.page_size, OS_GUARD_PROTECTION));
	assert_false(is_resident(page));
	os_unreserve(page, os.page_size);
}

int test_mlocked(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(stays_as_time_passes, begin),
		cmocka_unit_test_setup(goes_if_trimmed, begin),
		cmocka_unit_test_setup(goes_above_the_soft_limit, begin),
		cmocka_unit_test_setup(parts_stay_and_go, begin),
		cmocka_unit_test_setup(one_page_does_not_keep_others, begin),
		cmocka_unit_test_setup(the_cause_is_named, begin),
		cmocka_unit_test_setup(an_old_system_takes_none, begin),
		cmocka_unit_test_setup(closed_pages_go, begin),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
