/* SPDX-License-Identifier: MIT */
/* Deferred lines, with handlers that defer and write lines of their own at the same time; reports
 * of many lines. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kit/capture.h"
#include "kit/clock.h"
#include "kit/unit.h"
#include "os/report/record.h"
#include "os/report/report.h"

enum {
	HANDLERS = 3000
};

static volatile sig_atomic_t handled;
static struct capture captured;

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

static void make_long(const char *about, int lines)
{
	struct os_record *report = os_record_begin(about, "long");

	for (int i = 0; i < lines; i++)
		os_record_add(report, "line %02d of %s ...............................\n", i,
			      about);
	os_record_end(report);
}

/* Nobody reads, so what does not fit into the pipe waits; each line arrives whole, once, in
 * order. */
static void a_long_report_is_written_in_pieces(void **state)
{
	char line[128], text[16384];
	int saved = dup(STDERR_FILENO), ends[2], n = 0;
	ssize_t length;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(fcntl(ends[1], F_SETPIPE_SZ, 4096), 4096);
	dup2(ends[1], STDERR_FILENO);
	make_long("one", 150);
	for (; os_reports_kept; text[n] = '\0') {
		/* A full pipe is not tried again immediately. */
		clock_pass_ms(20);
		os_report_kept_nowait();
		length = read(ends[0], text + n, sizeof(text) - 1 - (size_t)n);
		assert_true(length > 0 && length < 4096 && text[n + length - 1] == '\n');
		n += (int)length;
	}
	dup2(saved, STDERR_FILENO);
	close(saved);
	for (int i = 0, at = 0; at < n; i++) {
		snprintf(line, sizeof(line), "line %02d of one ...............................\n",
			 i);
		assert_memory_equal(text + at, line, strlen(line));
		at += (int)strlen(line);
	}
	close(ends[0]);
	close(ends[1]);
}

/* There are places for 16; they are limited by kind, and one that is too long is cut off. */
static void long_reports_are_limited(void **state)
{
	uint32_t before = os_reports;
	char about[16];

	(void)state;
	capture_begin(&captured);
	for (int i = 0; i <= OS_RECORDS; i++) {
		snprintf(about, sizeof(about), "full %d", i);
		make_long(about, 1);
	}
	assert_int_equal(os_reports - before, OS_RECORDS);
	assert_int_equal(capture_end_deferred(&captured), OS_RECORDS + 1);
	assert_non_null(strstr(captured.text, "1 more lines like the last ones are left out"));
	capture_begin(&captured);
	for (int i = 0; i < 9; i++) {
		make_long("kind", 1);
		os_report_kept();
	}
	assert_int_equal(capture_end(&captured), 5);
	capture_begin(&captured);
	make_long("long", 1000);
	os_report_kept();
	assert_true(capture_end(&captured) < 200);
	assert_int_equal(captured.text[strlen(captured.text) - 1], '\n');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_is_written_once),
		cmocka_unit_test(a_long_report_is_written_in_pieces),
		cmocka_unit_test(long_reports_are_limited),
	};

	return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
