/* SPDX-License-Identifier: MIT */
/*
 * The program's function for reports, sheaf_set_report(). Each test runs in a child, which begins
 * without one.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sheaf/debug.h>
#include <sheaf/rcu.h>
#include <sheaf/slab.h>
#include <string.h>
#include <unistd.h>

#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/check.h"
#include "kit/process.h"
#include "kit/unit.h"

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

/* A misuse whose report has one line. */
static void report_a_line(void)
{
	CHECK(sheaf_rcu_register(NULL) == -EINVAL);
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
	called.length = 0;
	report_a_line();
	CHECK(called.calls == 2 && called.text[called.length - 1] == '\n');
	CHECK(!strncmp(called.text, "libsheaf: sheaf_rcu_register: ", 30));
	CHECK(strchr(called.text, '\n') == called.text + called.length - 1);
	CHECK(capture_end(&captured) == 0);
	/* In a call that never waits. */
	capture_begin(&captured);
	kmem_cache_free_nolock(s, object);
	CHECK(capture_end(&captured) > 5 && called.calls == 2);
	CHECK(sheaf_set_report(NULL, NULL, NULL) == 0);
	capture_begin(&captured);
	report_a_line();
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
	report_a_line();
	CHECK(capture_end(&captured) > 5 && strstr(captured.text, "Object already free"));
	CHECK(called.calls == 1);
	report_a_line();
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
	struct kmem_cache *s = make("forked", 32, SLAB_CONSISTENCY_CHECKS);
	void *object = kmem_cache_alloc(s, GFP_KERNEL);
	int status;

	CHECK(sheaf_set_report(fork_in_it, NULL, NULL) == 0);
	kmem_cache_free(s, object);
	kmem_cache_free(s, object);
	CHECK(called.calls == 1);
	report_a_line();
	/* The first one is not written again. */
	CHECK(called.calls == 2);
	if (called.child == 0)
		_exit(7);
	CHECK(waitpid(called.child, &status, 0) == called.child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static pthread_barrier_t inside;
static int may_return, has_returned, is_set;

static void stay(void *data, const char *what, size_t length)
{
	(void)data, (void)what, (void)length;
	pthread_barrier_wait(&inside);
	while (!__atomic_load_n(&may_return, __ATOMIC_ACQUIRE))
		sched_yield();
	/* The call that set another function must not have returned before. */
	CHECK(!__atomic_load_n(&is_set, __ATOMIC_ACQUIRE));
	__atomic_store_n(&has_returned, 1, __ATOMIC_RELEASE);
}

static void *report_in_thread(void *unused)
{
	(void)unused;
	report_a_line();
	return NULL;
}

static void *set_another(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&inside);
	CHECK(sheaf_set_report(collect, &called, NULL) == 0);
	__atomic_store_n(&is_set, 1, __ATOMIC_RELEASE);
	CHECK(__atomic_load_n(&has_returned, __ATOMIC_ACQUIRE));
	return NULL;
}

/* CALLBACK-C3 */
static void waits_for_it(void)
{
	pthread_t in_it, sets;

	pthread_barrier_init(&inside, NULL, 2);
	CHECK(sheaf_set_report(stay, NULL, NULL) == 0);
	pthread_create(&in_it, NULL, report_in_thread, NULL);
	pthread_create(&sets, NULL, set_another, NULL);
	/* The thread may not have begun to wait: then the test is weaker, not wrong. */
	for (int i = 0; i < 100; i++)
		usleep(50);
	CHECK(!__atomic_load_n(&is_set, __ATOMIC_ACQUIRE));
	__atomic_store_n(&may_return, 1, __ATOMIC_RELEASE);
	pthread_join(in_it, NULL);
	pthread_join(sets, NULL);
	report_a_line();
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
	report_a_line();
	CHECK(passed_on == 1 && called.calls == 1);
	CHECK(sheaf_set_report(below.report, below.data, &before) == 0);
	CHECK(before.report == pass_on && before.data == &below);
	report_a_line();
	CHECK(passed_on == 1 && called.calls == 2);
	CHECK(sheaf_set_report(refuses_to_change, NULL, NULL) == 0);
	report_a_line();
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

/* The first use: then each child begins after it. */
static int use(void **state)
{
	(void)state;
	kfree(kmalloc(1, GFP_KERNEL));
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_calls_the_library),
		cmocka_unit_test(test_forks_in_it),
		cmocka_unit_test(test_waits_for_it),
		cmocka_unit_test(test_returns_the_one_before),
	};

	return cmocka_run_group_tests_name("set-report", tests, use, NULL);
}
