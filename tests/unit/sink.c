/* SPDX-License-Identifier: MIT */
/*
 * Where reports go: a callback, a file, standard error; and what happens if one of them refuses.
 * Each test runs in a child, because a file that was refused is not tried again.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sheaf/debug.h>
#include <sheaf/slab.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/check.h"
#include "kit/clock.h"
#include "kit/directory.h"
#include "kit/process.h"
#include "kit/ready.h"
#include "kit/told.h"
#include "kit/unit.h"
#include "os/long_report.h"
#include "os/options.h"
#include "os/report.h"
#include "os/sink.h"

static char path[128], text[1 << 16];
static struct told told;

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

/* As at the first use. */
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
	struct os_long *report = os_long_begin("a cache", kind);

	os_long_add(report, "of many %s\n", kind);
	os_long_end(report);
	os_report_kept();
}

/* --- the file --------------------------------------------------------------------------------- */

static void appends(void)
{
	struct stat made;
	int before;

	snprintf(path, sizeof(path), "%s/appends", directory);
	before = read_file(path);
	told_begin(&told);
	to_own_file("appends");
	os_report("one");
	long_line("lines");
	os_report("two");
	CHECK(told_end(&told) == 0);
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

/* As a daemon does; then its own file gets the number that ours had. */
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
	CHECK(told_end(&told) == 3);
	CHECK(strstr(told.text, why));
	CHECK(strstr(told.text, "; reports go to standard error\n"));
	CHECK(strstr(told.text, "\nlibsheaf: one\nlibsheaf: two\n") ||
	      !strncmp(told.text, "libsheaf: one\n", 14));
}

static void no_directory(void)
{
	told_begin(&told);
	to_own_file("no/such");
	refused("cannot be opened (No such file or directory)");
}

/* It is not in the root folder. */
static void in_a_directory_that_is_gone(void)
{
	snprintf(path, sizeof(path), "%s/gone", directory);
	CHECK(mkdir(path, 0700) == 0 && chdir(path) == 0 && rmdir(path) == 0);
	told_begin(&told);
	report_to("no/such");
	refused("report=no/such cannot be opened (No such file or directory)");
}

static void a_link(void)
{
	char to[128];

	snprintf(to, sizeof(to), "%s/target", directory);
	snprintf(path, sizeof(path), "%s/link", directory);
	CHECK(symlink(to, path) == 0);
	told_begin(&told);
	to_own_file("link");
	refused("it is a symbolic link");
	CHECK(access(to, F_OK) != 0);
}

static void a_pipe_without_reader(void)
{
	snprintf(path, sizeof(path), "%s/pipe", directory);
	CHECK(mkfifo(path, 0600) == 0);
	told_begin(&told);
	to_own_file("pipe");
	refused("nobody reads this pipe");
}

static void of_another_user(void)
{
	int file;

	snprintf(path, sizeof(path), "%s/theirs", directory);
	file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	CHECK(file >= 0 && fchown(file, 12345, (gid_t)-1) == 0);
	told_begin(&told);
	to_own_file("theirs");
	refused("it belongs to another user");
}

static void a_pipe_of_another_user(void)
{
	int reader;

	snprintf(path, sizeof(path), "%s/their-pipe", directory);
	CHECK(mkfifo(path, 0666) == 0 && chown(path, 12345, (gid_t)-1) == 0);
	reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	told_begin(&told);
	to_own_file("their-pipe");
	refused("it belongs to another user");
	CHECK(read(reader, text, sizeof(text)) <= 0);
}

static void a_full_disk(void)
{
	told_begin(&told);
	report_to("/dev/full");
	refused("cannot be written to (No space left on device)");
}

/* Without care, SIGXFSZ ends the program. */
static void a_limit(void)
{
	const struct rlimit none = {0, 0};

	told_begin(&told);
	to_own_file("limit");
	told_end(&told);
	signal(SIGXFSZ, SIG_DFL);
	CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0);
	os_report("to standard error");
	CHECK(read_file(path) == 0);
}

static void what_is_refused_is_told(void **state)
{
	(void)state;
	in(no_directory);
	in(in_a_directory_that_is_gone);
	in(a_link);
	in(a_pipe_without_reader);
	in(a_full_disk);
	in(a_limit);
	if (geteuid()) {
		print_message("only root can make another user's file\n");
		return;
	}
	in(of_another_user);
	in(a_pipe_of_another_user);
}

/* --- standard error --------------------------------------------------------------------------- */

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
	/* One that the program has blocked stays for it. */
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
	CHECK(strstr(text, "\nlibsheaf: 17 more lines like the last ones are left out\n"));
}

/* What was written since, without a wait. */
static int read_pipe(int end)
{
	ssize_t length = read(end, text, sizeof(text) - 1);

	text[length > 0 ? length : 0] = '\0';
	return length > 0 ? (int)length : 0;
}

/* While nothing accepts a kept line, slow calls ask once in 10 ms; a line of their own they always
 * try to write. */
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

static void nobody_can_read(void **state)
{
	int status;

	(void)state;
	in(without_reader);
	in(closed);
	in(full);
	in(asks_now_and_then);
	status = in_child(full_and_panics);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* --- the callback ----------------------------------------------------------------------------- */

static struct {
	char text[4096];
	size_t length;
	int calls, inner;
	pid_t child;
} called;

static void collect(void *data, const char *what, size_t length)
{
	CHECK(data == &called);
	CHECK(called.length + length < sizeof(called.text));
	memcpy(called.text + called.length, what, length);
	called.length += length;
	called.calls++;
}

static void calls(void)
{
	struct kmem_cache *s = kmem_cache_create("called", 32, NULL, SLAB_CONSISTENCY_CHECKS);
	char *object = kmem_cache_alloc(s, GFP_KERNEL);

	CHECK(sheaf_set_report(collect, &called, NULL) == 0);
	told_begin(&told);
	kmem_cache_free(s, object);
	kmem_cache_free(s, object);
	CHECK(called.calls == 1);
	CHECK(strstr(called.text, "libsheaf: BUG called: Object already free\n"));
	CHECK(called.text[called.length - 1] == '\n');
	os_report("a line");
	CHECK(called.calls == 2 &&
	      !strcmp(strstr(called.text, "libsheaf: a"), "libsheaf: a line\n"));
	CHECK(told_end(&told) == 0);
	/* In a call that never waits. */
	told_begin(&told);
	kmem_cache_free_nolock(s, object);
	CHECK(told_end(&told) > 5 && called.calls == 2);
	CHECK(sheaf_set_report(NULL, NULL, NULL) == 0);
	told_begin(&told);
	os_report("to standard error");
	CHECK(told_end(&told) == 1 && called.calls == 2);
}

static void misuses(void *data, const char *what, size_t length)
{
	struct kmem_cache *s = data;
	void *object = kmem_cache_alloc(s, GFP_KERNEL);

	(void)what, (void)length;
	called.calls++;
	CHECK(sheaf_set_report(NULL, NULL, NULL) == -EBUSY);
	kmem_cache_free(s, object);
	kmem_cache_free(s, object);
}

/* Its own reports go past it. */
static void calls_the_library(void)
{
	struct kmem_cache *s = kmem_cache_create("again", 32, NULL, SLAB_CONSISTENCY_CHECKS);

	CHECK(sheaf_set_report(misuses, s, NULL) == 0);
	told_begin(&told);
	os_report("a line");
	CHECK(told_end(&told) > 5 && strstr(told.text, "Object already free"));
	CHECK(called.calls == 1);
	os_report("another one");
	CHECK(called.calls == 2);
}

static void fork_in_it(void *data, const char *what, size_t length)
{
	(void)data, (void)what, (void)length;
	if (called.calls++)
		return;
	called.child = fork();
}

static void forks_in_it(void)
{
	int status;

	CHECK(sheaf_set_report(fork_in_it, NULL, NULL) == 0);
	long_line("that forks");
	CHECK(called.calls == 1);
	os_report("another one");
	CHECK(called.calls == 2 && os_reports_kept == 0);
	if (called.child == 0)
		_exit(7);
	CHECK(waitpid(called.child, &status, 0) == called.child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static pthread_barrier_t inside;
static uint32_t may_return, has_returned, is_set;

static void stay(void *data, const char *what, size_t length)
{
	(void)data, (void)what, (void)length;
	pthread_barrier_wait(&inside);
	while (!os_load_acquire(&may_return))
		sched_yield();
	/* Who set another one must not have returned before. */
	CHECK(!os_load_acquire(&is_set));
	os_store_release(&has_returned, 1);
}

static void *report_a_line(void *unused)
{
	(void)unused;
	os_report("a line");
	return NULL;
}

static void *set_another(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&inside);
	CHECK(sheaf_set_report(collect, &called, NULL) == 0);
	os_store_release(&is_set, 1);
	CHECK(os_load_acquire(&has_returned));
	return NULL;
}

static void waits_for_it(void)
{
	pthread_t in_it, sets;

	pthread_barrier_init(&inside, NULL, 2);
	CHECK(sheaf_set_report(stay, NULL, NULL) == 0);
	pthread_create(&in_it, NULL, report_a_line, NULL);
	pthread_create(&sets, NULL, set_another, NULL);
	/* It may not have begun to wait: then the test is weaker, not wrong. */
	for (int i = 0; i < 100; i++)
		os_sleep_briefly();
	CHECK(!os_load_acquire(&is_set));
	os_store_release(&may_return, 1);
	pthread_join(in_it, NULL);
	pthread_join(sets, NULL);
	os_report("to the other one");
	CHECK(called.calls == 1);
}

static struct sheaf_report_to below;
static int passed_on;

static void pass_on(void *data, const char *what, size_t length)
{
	CHECK(data == &below && below.report == collect);
	passed_on++;
	below.report(below.data, what, length);
}

static void refuses_to_change(void *data, const char *what, size_t length)
{
	struct sheaf_report_to untouched = {pass_on, NULL};

	(void)data, (void)what, (void)length;
	CHECK(sheaf_set_report(collect, NULL, &untouched) == -EBUSY);
	CHECK(untouched.report == pass_on && !untouched.data);
	called.calls++;
}

static void returns_the_one_before(void)
{
	struct sheaf_report_to before = {pass_on, &below};

	CHECK(sheaf_set_report(collect, &called, &before) == 0);
	CHECK(!before.report && !before.data);
	CHECK(sheaf_set_report(pass_on, &below, &below) == 0);
	os_report("to both");
	CHECK(passed_on == 1 && called.calls == 1);
	CHECK(sheaf_set_report(below.report, below.data, &before) == 0);
	CHECK(before.report == pass_on && before.data == &below);
	os_report("to the first again");
	CHECK(passed_on == 1 && called.calls == 2);
	CHECK(sheaf_set_report(refuses_to_change, NULL, NULL) == 0);
	os_report("nothing changes");
	CHECK(called.calls == 3);
}

static void a_callback_gets_reports(void **state)
{
	(void)state;
	in(calls);
	in(calls_the_library);
	in(forks_in_it);
	in(waits_for_it);
	in(returns_the_one_before);
}

static void paths_that_are_none(void **state)
{
	static const char *const wrong[] = {"report=", "report=a\tb", "report=a\x7f"};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		told_begin(&told);
		assert_false(os_options_parse(wrong[i]));
		assert_int_equal(told_end_kept(&told), 1);
		assert_non_null(strstr(told.text, "report= takes 1 to 511 letters"));
		assert_string_equal(os_options.report, "");
	}
	told_begin(&told);
	assert_false(os_options_parse("reprot=/tmp/report"));
	assert_int_equal(told_end_kept(&told), 1);
	assert_non_null(strstr(told.text, "did you mean \"report=\"?"));
	assert_true(os_options_parse(""));
}

static int set_up(void **state)
{
	return make_directory(state) ? -1 : setup(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_is_appended_to),
		cmocka_unit_test(each_process_has_its_own),
		cmocka_unit_test(a_descriptor_that_changed_is_left_alone),
		cmocka_unit_test(what_is_refused_is_told),
		cmocka_unit_test(nobody_can_read),
		cmocka_unit_test(a_callback_gets_reports),
		cmocka_unit_test(paths_that_are_none),
	};

	return cmocka_run_group_tests_name("sink", tests, set_up, remove_directory);
}
