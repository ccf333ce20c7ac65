/* SPDX-License-Identifier: MIT */
/*
 * The file of report=PATH, and what happens if it is refused. Each test runs in a child, because a
 * file that was refused is not tried again.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "internal/kit/ready.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/directory.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/options/options.h"
#include "os/report/record.h"
#include "os/report/report.h"
#include "os/report/sink.h"

static char path[128], text[1 << 16];
static struct capture captured;

static void in(void (*body)(void))
{
	assert_int_equal(in_child(body), 0);
}

/* The file's text; its length, or -1. */
static int read_file(const char *name)
{
	int file = open(name, O_RDONLY | O_CLOEXEC);
	ssize_t length = read(file, text, sizeof(text) - 1);

	close(file);
	text[length > 0 ? length : 0] = '\0';
	return (int)length;
}

/* Pretend that this is the first use. */
static void report_to(const char *name)
{
	char option[256];

	snprintf(option, sizeof(option), "report=%s", name);
	CHECK(os_options_parse(option));
	os_sink_open();
}

static void to_own_file(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	report_to(path);
}

static void long_line(const char *kind)
{
	struct os_record *report = os_record_begin("a cache", kind);

	os_record_add(report, "of many %s\n", kind);
	os_record_end(report, false);
	os_report_kept();
}

/* --- the file --------------------------------------------------------------------------------- */

static void appends(void)
{
	struct stat made;
	int before;

	snprintf(path, sizeof(path), "%s/appends", directory);
	before = read_file(path);
	capture_begin(&captured);
	to_own_file("appends");
	os_report("one");
	long_line("lines");
	os_report("two");
	CHECK(capture_end(&captured) == 0);
	CHECK(read_file(path) > 0);
	CHECK(!strcmp(text + (before < 0 ? 0 : before),
		      "libsheaf: one\nof many lines\nlibsheaf: two\n"));
	CHECK(stat(path, &made) == 0 && (made.st_mode & 0777) == 0600);
}

static void a_file_is_appended_to(void **state)
{
	(void)state;
	in(appends);
	in(appends);
}

static void forks(void)
{
	char option[160], mine[160], its[160];
	pid_t child;
	int status;

	snprintf(option, sizeof(option), "%s/of-%%p", directory);
	report_to(option);
	os_report("parent");
	child = fork();
	if (child == 0) {
		os_report("child");
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	snprintf(mine, sizeof(mine), "%s/of-%d", directory, (int)getpid());
	snprintf(its, sizeof(its), "%s/of-%d", directory, (int)child);
	CHECK(read_file(mine) > 0 && !strcmp(text, "libsheaf: parent\n"));
	CHECK(read_file(its) > 0 && !strcmp(text, "libsheaf: child\n"));
}

static void each_process_has_its_own(void **state)
{
	(void)state;
	in(forks);
}

/* As a daemon does; then its own file gets the number of our descriptor. */
static void closes_all(void)
{
	char own[128];
	int file;

	to_own_file("closed");
	os_report("one");
	snprintf(own, sizeof(own), "%s/own", directory);
	file = open(own, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	for (int i = 100; i < 200; i++)
		CHECK(dup2(file, i) == i);
	os_report("two");
	CHECK(lseek(file, 0, SEEK_END) == 0);
	CHECK(read_file(path) > 0 && !strcmp(text, "libsheaf: one\nlibsheaf: two\n"));
}

static void a_descriptor_that_changed_is_left_alone(void **state)
{
	(void)state;
	in(closes_all);
}

/* A line that says so, once; and all reports. */
static void refused(const char *why)
{
	os_report("one");
	os_report("two");
	CHECK(capture_end(&captured) == 3);
	CHECK(strstr(captured.text, why));
	CHECK(strstr(captured.text, "; reports go to standard error\n"));
	CHECK(strstr(captured.text, "\nlibsheaf: one\nlibsheaf: two\n") ||
	      !strncmp(captured.text, "libsheaf: one\n", 14));
}

static void no_directory(void)
{
	capture_begin(&captured);
	to_own_file("no/such");
	refused("cannot be opened (No such file or directory)");
}

/* The file is not in the root directory. */
static void in_a_directory_that_is_gone(void)
{
	snprintf(path, sizeof(path), "%s/gone", directory);
	CHECK(mkdir(path, 0700) == 0 && chdir(path) == 0 && rmdir(path) == 0);
	capture_begin(&captured);
	report_to("no/such");
	refused("report=no/such cannot be opened (No such file or directory)");
}

static void a_link(void)
{
	char to[128];

	snprintf(to, sizeof(to), "%s/target", directory);
	snprintf(path, sizeof(path), "%s/link", directory);
	CHECK(symlink(to, path) == 0);
	capture_begin(&captured);
	to_own_file("link");
	refused("it is a symbolic link");
	CHECK(access(to, F_OK) != 0);
}

static void a_pipe_without_reader(void)
{
	snprintf(path, sizeof(path), "%s/pipe", directory);
	CHECK(mkfifo(path, 0600) == 0);
	capture_begin(&captured);
	to_own_file("pipe");
	refused("nobody reads this pipe");
}

static void of_another_user(void)
{
	int file;

	snprintf(path, sizeof(path), "%s/theirs", directory);
	file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	CHECK(file >= 0 && fchown(file, 12345, (gid_t)-1) == 0);
	capture_begin(&captured);
	to_own_file("theirs");
	refused("it belongs to another user");
}

static void a_pipe_of_another_user(void)
{
	int reader;

	snprintf(path, sizeof(path), "%s/their-pipe", directory);
	CHECK(mkfifo(path, 0666) == 0 && chown(path, 12345, (gid_t)-1) == 0);
	reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	capture_begin(&captured);
	to_own_file("their-pipe");
	refused("it belongs to another user");
	CHECK(read(reader, text, sizeof(text)) <= 0);
}

static void a_socket(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(at.sun_path, sizeof(at.sun_path), "%s/socket", directory);
	CHECK(bind(file, (struct sockaddr *)&at, sizeof(at)) == 0);
	capture_begin(&captured);
	to_own_file("socket");
	refused("cannot be opened (it is a socket)");
}

static void no_terminal(void)
{
	setsid();
	if (open("/dev/tty", O_WRONLY | O_CLOEXEC) >= 0 || errno != ENXIO) {
		print_message("/dev/tty is no terminal here\n");
		return;
	}
	capture_begin(&captured);
	report_to("/dev/tty");
	refused("cannot be opened (no terminal or other device is behind it)");
}

/* Not the file, but a directory on the way to it. */
static void a_loop(void)
{
	snprintf(path, sizeof(path), "%s/loop", directory);
	CHECK(symlink("loop", path) == 0);
	capture_begin(&captured);
	to_own_file("loop/file");
	refused("cannot be opened (Too many levels of symbolic links)");
}

static void a_full_disk(void)
{
	capture_begin(&captured);
	report_to("/dev/full");
	refused("cannot be written to (No space left on device)");
}

/* Without care, SIGXFSZ ends the program. */
static void a_limit(void)
{
	const struct rlimit none = {0, 0};

	capture_begin(&captured);
	to_own_file("limit");
	capture_end(&captured);
	signal(SIGXFSZ, SIG_DFL);
	CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0);
	os_report("to standard error");
	CHECK(read_file(path) == 0);
}

static void what_is_refused_is_reported(void **state)
{
	(void)state;
	in(no_directory);
	in(in_a_directory_that_is_gone);
	in(a_link);
	in(a_loop);
	in(a_pipe_without_reader);
	in(a_socket);
	in(no_terminal);
	in(a_full_disk);
	in(a_limit);
	if (geteuid()) {
		print_message("only root can make another user's file\n");
		return;
	}
	in(of_another_user);
	in(a_pipe_of_another_user);
}

/* --- the option ------------------------------------------------------------------------------- */

static void paths_that_are_none(void **state)
{
	static const char *const wrong[] = {"report=", "report=a\tb", "report=a\x7f"};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		capture_begin(&captured);
		assert_false(os_options_parse(wrong[i]));
		assert_int_equal(capture_end_deferred(&captured), 1);
		assert_non_null(strstr(captured.text, "report= takes 1 to 511 letters"));
		assert_string_equal(os_options.report, "");
	}
	capture_begin(&captured);
	assert_false(os_options_parse("reprot=/tmp/report"));
	assert_int_equal(capture_end_deferred(&captured), 1);
	assert_non_null(strstr(captured.text, "did you mean \"report=\"?"));
	assert_true(os_options_parse(""));
}

static int set_up(void **state)
{
	return make_directory(state) ? -1 : setup(state);
}

int test_sink(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_is_appended_to),
		cmocka_unit_test(each_process_has_its_own),
		cmocka_unit_test(a_descriptor_that_changed_is_left_alone),
		cmocka_unit_test(what_is_refused_is_reported),
		cmocka_unit_test(paths_that_are_none),
	};

	return cmocka_run_group_tests_name("sink", tests, set_up, remove_directory);
}
