/* SPDX-License-Identifier: MIT */
/*
 * The program's function for reports, sheaf_set_report(). Each test runs in a child, which begins
 * without one.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sheaf/debug.h>
#include <sheaf/slab.h>
#include <string.h>
#include <unistd.h>

#include "internal/kit/ready.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/lock.h"
#include "os/report/record.h"
#include "os/report/report.h"

static struct capture captured;

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
	capture_begin(&captured);
	kmem_cache_free(s, object);
	kmem_cache_free(s, object);
	CHECK(called.calls == 1);
	CHECK(strstr(called.text, "libsheaf: BUG called: Object already free\n"));
	CHECK(called.text[called.length - 1] == '\n');
	os_report("a line");
	CHECK(called.calls == 2 &&
	      !strcmp(strstr(called.text, "libsheaf: a"), "libsheaf: a line\n"));
	CHECK(capture_end(&captured) == 0);
	/* In a call that never waits. */
	capture_begin(&captured);
	kmem_cache_free_nolock(s, object);
	CHECK(capture_end(&captured) > 5 && called.calls == 2);
	CHECK(sheaf_set_report(NULL, NULL, NULL) == 0);
	capture_begin(&captured);
	os_report("to standard error");
	CHECK(capture_end(&captured) == 1 && called.calls == 2);
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

/* Reports of its own calls bypass it. */
static void calls_the_library(void)
{
	struct kmem_cache *s = kmem_cache_create("again", 32, NULL, SLAB_CONSISTENCY_CHECKS);

	CHECK(sheaf_set_report(misuses, s, NULL) == 0);
	capture_begin(&captured);
	os_report("a line");
	CHECK(capture_end(&captured) > 5 && strstr(captured.text, "Object already free"));
	CHECK(called.calls == 1);
	os_report("another one");
	CHECK(called.calls == 2);
}

static void long_line(void)
{
	struct os_record *report = os_record_begin("a cache", "that forks");

	os_record_add(report, "of many lines\n");
	os_record_end(report);
	os_report_kept();
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
	long_line();
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
	/* The call that set another function must not have returned before. */
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

/* CALLBACK-C3 */
static void waits_for_it(void)
{
	pthread_t in_it, sets;

	pthread_barrier_init(&inside, NULL, 2);
	CHECK(sheaf_set_report(stay, NULL, NULL) == 0);
	pthread_create(&in_it, NULL, report_a_line, NULL);
	pthread_create(&sets, NULL, set_another, NULL);
	/* The thread may not have begun to wait: then the test is weaker, not wrong. */
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

#define IN_CHILD(name)                                                                             \
	static void test_##name(void **state)                                                      \
	{                                                                                          \
		(void)state;                                                                       \
		assert_int_equal(in_child(name), 0);                                               \
	}
IN_CHILD(calls)
IN_CHILD(calls_the_library)
IN_CHILD(forks_in_it)
IN_CHILD(waits_for_it)
IN_CHILD(returns_the_one_before)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_calls_the_library),
		cmocka_unit_test(test_forks_in_it),
		cmocka_unit_test(test_waits_for_it),
		cmocka_unit_test(test_returns_the_one_before),
	};

	return cmocka_run_group_tests_name("set-report", tests, setup, NULL);
}
