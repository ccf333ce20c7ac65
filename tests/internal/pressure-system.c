/* SPDX-License-Identifier: MIT */
/* The trigger of this system, if it reports memory pressure: set, looked at, set by a child. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
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

/* As when a program becomes a daemon: the descriptor with this number is now the program's. */
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

/* The number of the trigger's file. */
static int trigger_file(void)
{
	char name[64], path[256];

	for (int file = 100; file < 1024; file++) {
		ssize_t length;

		snprintf(name, sizeof(name), "/proc/self/fd/%d", file);
		length = readlink(name, path, sizeof(path) - 1);
		path[length < 0 ? 0 : length] = '\0';
		if (strstr(path, "pressure"))
			return file;
	}
	return -1;
}

/* A file without a trigger is what is left when the control group was removed. */
static void it_is_set_again(void **state)
{
	int file, without;

	(void)state;
	if (!tells())
		skip();
	file = trigger_file();
	without = open("/proc/pressure/memory", O_RDWR | O_CLOEXEC);
	assert_true(file >= 100 && without >= 0);
	if (dup2(without, file) != file || close(without))
		fail();
	assert_false(os_pressure_seen());
	assert_int_equal(fcntl(file, F_GETFD), -1);
	assert_true(os_pressure_begin());
	assert_true(trigger_file() >= 100);
}

static void *look_cancelled(void *goes_on)
{
	pthread_cancel(pthread_self());
	os_pressure_in_child();
	os_pressure_begin();
	os_pressure_seen();
	*(bool *)goes_on = true;
	return NULL;
}

/* It would block a round of housekeeping forever, and fork() would wait for it. */
static void no_thread_is_cancelled_there(void **state)
{
	bool goes_on = false;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, look_cancelled, &goes_on), 0);
	pthread_join(thread, NULL);
	assert_true(goes_on);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_set_and_looked_at),
		cmocka_unit_test(closed_by_the_program),
		cmocka_unit_test(it_is_set_again),
		cmocka_unit_test(no_thread_is_cancelled_there),
	};

	return cmocka_run_group_tests_name("pressure-system", tests, NULL, NULL);
}
