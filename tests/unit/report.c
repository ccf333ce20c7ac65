/* SPDX-License-Identifier: MIT */
/* Deferred lines, with handlers that defer and write lines of their own at the same time. */
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "kit/unit.h"
#include "os/report.h"

enum {
	HANDLERS = 3000
};

static volatile sig_atomic_t handled;

static void keep_and_write(void)
{
	os_report_later("a line");
	os_report_kept();
}

static void on_signal(int number)
{
	(void)number;
	handled++;
	keep_and_write();
}

/* One shot, so that on a slow machine the handlers leave time for the interrupted code. */
static void start_timer(timer_t timer, int i)
{
	struct itimerspec once = {.it_value = {0, 10000 + i * 37 % 5000}};

	assert_int_equal(timer_settime(timer, 0, &once, NULL), 0);
}

/* A handler took a line that its thread was about to copy, and both counted it as written. */
static void a_line_is_written_once(void **state)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
	int saved = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	timer_t timer;

	(void)state;
	signal(SIGUSR2, on_signal);
	assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	dup2(nowhere, STDERR_FILENO);
	for (int i = 0; i < HANDLERS; i++)
		for (start_timer(timer, i); handled == i;)
			keep_and_write();
	dup2(saved, STDERR_FILENO);
	timer_delete(timer);
	close(nowhere);
	close(saved);
	assert_int_equal(os_reports_kept, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_is_written_once),
	};

	return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
