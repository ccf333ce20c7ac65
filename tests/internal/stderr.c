/* SPDX-License-Identifier: MIT */
/*
 * Standard error without a reader, closed or full: lines that can never be written are lost, and
 * lines that it does not take now are kept. Each test runs in a child.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "internal/kit/ready.h"
#include "kit/check.h"
#include "kit/clock.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/options/options.h"
#include "os/report/record.h"
#include "os/report/report.h"
#include "os/report/sink.h"

static char text[1 << 16];

static void in(void (*body)(void))
{
	assert_int_equal(in_child(body), 0);
}

static void long_line(const char *kind)
{
	struct os_record *report = os_record_begin("a cache", kind);

	os_record_add(report, "of many %s\n", kind);
	os_record_end(report);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_reader_or_closed),
		cmocka_unit_test(is_full),
	};

	return cmocka_run_group_tests_name("standard error", tests, setup, NULL);
}
