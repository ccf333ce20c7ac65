/* SPDX-License-Identifier: MIT */
/* Misses that overlap: which access waits for which, computed by hand. */
#include "scale/src/ahead.h"

#include "kit/unit.h"

enum {
	LINE = 1000,
	POINTER = 0x10000,
	MOST = 4,
	FAR = 100, /* time that a line needs */
};

static struct ahead ahead;

static int begin(void **state)
{
	(void)state;
	ahead = (struct ahead){0};
	return 0;
}

static void lines_overlap(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < MOST; i++) {
		assert_int_equal(ahead_room(&ahead, i, MOST), i);
		ahead_asked(&ahead, LINE + i, i + FAR);
	}
	assert_int_equal(ahead_arrival(&ahead, LINE + 2, 50), 2 + FAR);
	assert_int_equal(ahead_arrival(&ahead, LINE + MOST, 50), 50);
	/* The next one has to wait for the first of them. */
	assert_int_equal(ahead_room(&ahead, 50, MOST), FAR);
	ahead_asked(&ahead, LINE + MOST, FAR + FAR);
	assert_int_equal(ahead_room(&ahead, FAR, MOST), 1 + FAR);
	assert_int_equal(ahead_all(&ahead, FAR + 1), FAR + FAR);
	assert_int_equal(ahead_room(&ahead, FAR + FAR, 1), FAR + FAR);
}

static void an_address_may_depend_on_a_load(void **state)
{
	(void)state;
	ahead_loaded(&ahead, POINTER, 10, 10 + FAR);
	assert_int_equal(ahead_known(&ahead, POINTER, 20), 10 + FAR);
	assert_int_equal(ahead_known(&ahead, POINTER + AHEAD_REACH - 1, 20), 10 + FAR);
	assert_int_equal(ahead_known(&ahead, POINTER + AHEAD_REACH, 20), 20);
	assert_int_equal(ahead_known(&ahead, POINTER - 1, 20), 20);
	/* Once it has arrived, nothing waits for it. */
	assert_int_equal(ahead_known(&ahead, POINTER, 10 + FAR), 10 + FAR);
	/* A load that has arrived delays nothing. */
	ahead_loaded(&ahead, 2 * POINTER, 30, 30);
	assert_int_equal(ahead_known(&ahead, 2 * POINTER, 20), 20);
}

static void a_load_holds_the_work_behind_it_up(void **state)
{
	(void)state;
	ahead_loaded(&ahead, 0, 10, 10 + FAR);
	ahead_loaded(&ahead, 0, 15, 15 + FAR);
	assert_int_equal(ahead_limit(&ahead, 30, 20), 30);
	/* Behind the first one, and then behind the second, which arrives soon after it. */
	assert_int_equal(ahead_limit(&ahead, 31, 20), 15 + FAR);
	assert_int_equal(ahead_limit(&ahead, 500, 20), 500);
}

static void loads_without_room_are_forgotten(void **state)
{
	(void)state;
	for (unsigned int i = 0; i <= AHEAD_LOADS; i++)
		ahead_loaded(&ahead, (i + 1) * POINTER, i, i + 1000);
	assert_int_equal(ahead_known(&ahead, POINTER, 100), 100);
	assert_int_equal(ahead_known(&ahead, (AHEAD_LOADS + 1) * POINTER, 100), AHEAD_LOADS + 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(lines_overlap, begin),
		cmocka_unit_test_setup(an_address_may_depend_on_a_load, begin),
		cmocka_unit_test_setup(a_load_holds_the_work_behind_it_up, begin),
		cmocka_unit_test_setup(loads_without_room_are_forgotten, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
