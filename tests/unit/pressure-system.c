/* SPDX-License-Identifier: MIT */
/* The trigger of this system, if it reports memory pressure: set, looked at, set by a child. */
#include <fcntl.h>
#include <unistd.h>

#include "kit/process.h"
#include "kit/unit.h"
#include "os/pressure.h"

static bool tells(void)
{
	return access("/proc/pressure/memory", R_OK | W_OK) == 0 && os_pressure_begin();
}

static void ask(void)
{
	os_pressure_in_child();
	CHECK(!os_pressure_seen());
	CHECK(os_pressure_begin());
	os_pressure_seen();
}

static void it_is_set_and_looked_at(void **state)
{
	(void)state;
	if (!tells())
		skip();
	assert_true(os_pressure_begin()); /* once is enough */
	os_pressure_seen();
	assert_int_equal(in_child(ask), 0);
}

/* As a program that becomes a daemon: what has the number now is the program's. */
static void closed_by_the_program(void **state)
{
	int highest = -1, files[64];

	(void)state;
	if (!tells())
		skip();
	for (int file = 3; file < 1024; file++)
		close(file);
	assert_false(os_pressure_seen());
	for (unsigned int i = 0; i < 64; i++)
		files[i] = highest = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 90);
	assert_true(highest > 100);
	assert_false(os_pressure_seen());
	os_pressure_in_child();
	for (unsigned int i = 0; i < 64; i++)
		assert_int_equal(close(files[i]), 0);
	assert_true(os_pressure_begin());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_set_and_looked_at),
		cmocka_unit_test(closed_by_the_program),
	};

	return cmocka_run_group_tests_name("pressure-system", tests, NULL, NULL);
}
