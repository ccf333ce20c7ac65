/* SPDX-License-Identifier: MIT */
/*
 * Reports that wait: with handlers that defer and write lines of their own at the same time; those
 * of many lines; and standard error without a reader, closed or full, where lines that can never be
 * written are lost, and lines that it does not take now are kept.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "internal/kit/ready.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/clock.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/options/options.h"
#include "os/report/record.h"
#include "os/report/report.h"
#include "os/report/sink.h"

enum {
	HANDLERS = 1500
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
	os_record_end(report, false);
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
	char about[32];

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

/* --- standard error; each test runs in a child ------------------------------------------------ */

static char text[1 << 16];

static void in(void (*body)(void))
{
	assert_int_equal(in_child(body), 0);
}

static void long_line(const char *kind)
{
	struct os_record *report = os_record_begin("a cache", kind);

	os_record_add(report, "of many %s\n", kind);
	os_record_end(report, false);
	os_report_kept();
}

static void without_reader(void)
{
	sigset_t pending, pipe_only;
	int ends[2];

	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	dup2(ends[1], STDERR_FILENO);
	close(ends[0]);
	signal(SIGPIPE, SIG_DFL);
	os_report("lost");
	long_line("lost");
	os_options_help();
	/* A signal that the program has blocked stays pending for it. */
	sigemptyset(&pipe_only);
	sigaddset(&pipe_only, SIGPIPE);
	sigprocmask(SIG_BLOCK, &pipe_only, NULL);
	os_report("lost");
	sigpending(&pending);
	CHECK(!sigismember(&pending, SIGPIPE));
	raise(SIGPIPE);
	os_report("lost");
	sigpending(&pending);
	CHECK(sigismember(&pending, SIGPIPE));
	CHECK(os_reports_kept == 0);
}

static void closed(void)
{
	close(STDERR_FILENO);
	os_report("lost");
	long_line("lost");
	CHECK(os_reports_kept == 0);
}

static int fill_pipe(int *ends)
{
	int filled = 0;

	CHECK(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
	CHECK(fcntl(ends[1], F_SETPIPE_SZ, 4096) == 4096);
	while (write(ends[1], "x", 1) == 1)
		filled++;
	dup2(ends[1], STDERR_FILENO);
	return filled;
}

/* What a pipe does not take now is written later. */
static void full(void)
{
	int ends[2], filled = fill_pipe(ends), n = 0;
	ssize_t length;

	os_report("one");
	os_misuse(NULL, "two");
	long_line("lines");
	os_report_later("three");
	os_report_kept();
	CHECK(os_reports_kept == 4);
	for (int i = 0; i < 30; i++)
		os_report("more");
	CHECK(read(ends[0], text, (size_t)filled) == filled);
	while (!strstr(text, " are left out\n")) {
		os_write_kept();
		length = read(ends[0], text + n, sizeof(text) - 1 - (size_t)n);
		n += length > 0 ? (int)length : 0;
		text[n] = '\0';
	}
	CHECK(os_reports_kept == 0);
	CHECK(!strncmp(text, "libsheaf: one\n", 14));
	CHECK(strstr(text, "libsheaf: two") && strstr(text, "\nof many lines\n") &&
	      strstr(text, "\nlibsheaf: three\n"));
	CHECK(strstr(text, "\nlibsheaf: 18 more lines like the last ones are left out\n"));
}

/* What was written since, without a wait. */
static int read_pipe(int end)
{
	ssize_t length = read(end, text, sizeof(text) - 1);

	text[length > 0 ? length : 0] = '\0';
	return length > 0 ? (int)length : 0;
}

/* While kept lines cannot be written, slow calls try once in 10 ms; they always try to write lines
 * of their own. */
static void asks_now_and_then(void)
{
	int ends[2], filled = fill_pipe(ends);

	clock_stands = true;
	os_report("kept");
	long_line("lines");
	os_write_kept();
	CHECK(read(ends[0], text, (size_t)filled) == filled);
	clock_pass_ms(9);
	os_write_kept();
	os_write_kept_nowait();
	CHECK(os_reports_kept == 2 && !read_pipe(ends[0]));
	os_report("own");
	CHECK(read_pipe(ends[0]) && !strcmp(text, "libsheaf: own\n"));
	clock_pass_ms(3);
	os_write_kept();
	CHECK(os_reports_kept == 1 && read_pipe(ends[0]) && !strcmp(text, "libsheaf: kept\n"));
	clock_pass_ms(12);
	os_write_kept_nowait();
	CHECK(os_reports_kept == 0 && read_pipe(ends[0]) && !strcmp(text, "of many lines\n"));
}

static void full_and_panics(void)
{
	int ends[2];

	fill_pipe(ends);
	os_options.panic_on_warn = 1;
	long_line("the last");
}

static int end_of_pipe;

static void has_the_reason(int number)
{
	(void)number;
	_exit(!read_pipe(end_of_pipe) || strcmp(text, "libsheaf: the reason\n") != 0);
}

/* All places are taken, and the pipe has room again. */
static void full_and_ends(void)
{
	int ends[2], filled = fill_pipe(ends);

	clock_stands = true;
	for (int i = 0; i < 2 * OS_RECORDS; i++)
		os_report("%d", i);
	CHECK(os_reports_kept == OS_RECORDS);
	CHECK(read(ends[0], text, (size_t)filled) == filled);
	end_of_pipe = ends[0];
	signal(SIGABRT, has_the_reason);
	os_fatal("the reason");
}

/* SINK-W1 */
static void without_reader_or_closed(void **state)
{
	(void)state;
	in(without_reader);
	in(closed);
}

/* REPORT-T3, SINK-W2 */
static void is_full(void **state)
{
	int status;

	(void)state;
	in(full);
	in(asks_now_and_then);
	in(full_and_ends);
	status = in_child(full_and_panics);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int test_report(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_is_written_once),
		cmocka_unit_test(a_long_report_is_written_in_pieces),
		cmocka_unit_test(long_reports_are_limited),
		cmocka_unit_test(without_reader_or_closed),
		cmocka_unit_test(is_full),
	};

	return cmocka_run_group_tests_name("report", tests, setup, NULL);
}
