/* SPDX-License-Identifier: MIT */
/*
 * What a checked cache finds beyond wrong frees and writes: objects that wait for a grace period,
 * uninitialised use, leaks, traces. It goes on after each report, in any context.
 */
#include <pthread.h>
#include <sheaf/kmalloc.h>
#include <sheaf/rcu.h>
#include <sheaf/slab.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/by_hand.h"
#include "kit/check.h"
#include "kit/debug_cache.h"
#include "kit/hooks.h"
#include "kit/needs.h"
#include "kit/process.h"
#include "kit/sanitizers.h"

static void waits_for_a_grace_period(void **state)
{
	struct kmem_cache *s = checked("retired", FZPU);
	char *object = take(s);

	(void)state;
	memset(object, 'r', 32);
	kmem_cache_free_rcu(s, object);
	/* Readers may still look at it. */
	assert_int_equal(object[0], 'r');
	capture_begin(&captured);
	kmem_cache_free(s, object);
	reported_exactly(
		HEAD("retired", "Object waits for a grace period") SLAB
		"Object PTR @cache=retired size=32, waits for a grace period\n" ALLOCATED FREED
			LEFT("cc") "Object      +0:" BYTES16(
				"72") "  rrrrrrrrrrrrrrrr\n"
				      "Object     +16:" BYTES16(
					      "72") "  rrrrrrrrrrrrrrrr\n" RIGHT32("cc")
					      FOUND("kmem_cache_free(retired")
						      FIX("retired", IGNORED)
							      TRY("retired",
								  "kfree_rcu() already frees it: "
								  "remove one of the two "
								  "calls"));
	capture_begin(&captured);
	kfree_rcu_mightsleep(object);
	assert_true(capture_end(&captured) > 0);
	assert_non_null(strstr(captured.text, "Object waits for a grace period"));
	kvfree_rcu_barrier();
	assert_int_equal(object[0], 0x6b);
	end(s);
}

/* What a reader or an owner writes meanwhile is allowed; what it writes beyond is found after
 * the grace period (SLAB_DEBUG-D6). */
static void checked_after_the_grace_period(void **state)
{
	struct kmem_cache *s = checked("late", FZPU);
	char *object = take(s);

	(void)state;
	kmem_cache_free_rcu(s, object);
	memset(object, 1, 33);
	capture_begin(&captured);
	kvfree_rcu_barrier();
	capture_end_deferred(&captured);
	assert_non_null(strstr(captured.text, "BUG late: Right Redzone overwritten"));
	assert_non_null(strstr(captured.text, "Found by kfree_rcu(late, "));
	end(s);
}

/* Memory that was never written to is recognised. */
static void uninitialised_use(void **state)
{
	struct kmem_cache *s = checked("fresh", FZPU);
	unsigned char *object = (unsigned char *)take(s);

	(void)state;
	for (int i = 0; i < 32; i++)
		assert_int_equal(object[i], 0x5a);
	kmem_cache_free(s, object);
	object = kmem_cache_zalloc(s, GFP_KERNEL);
	for (int i = 0; i < 32; i++)
		assert_int_equal(object[i], 0);
	kmem_cache_free(s, object);
	end(s);
}

static unsigned int constructed;

static void construct(void *object)
{
	memset(object, 0xc0, 32);
	constructed++;
}

/* SLAB_DEBUG-D5 */
static void a_constructed_object_keeps_its_state(void **state)
{
	struct kmem_cache *s =
		kmem_cache_create("constructed", 32, 8, FZPU | SLAB_NO_USER_FLAGS, construct);
	unsigned char *object = (unsigned char *)take(s);
	unsigned int before = constructed;

	(void)state;
	assert_int_equal(object[31], 0xc0);
	object[31] = 7;
	kmem_cache_free(s, object);
	assert_int_equal(object[31], 7);
	object = (unsigned char *)take(s);
	assert_int_equal(object[31], 7);
	assert_int_equal(constructed, before);
	object[32] = 0;
	capture_begin(&captured);
	kmem_cache_free(s, object);
	assert_true(capture_end(&captured) > 0);
	end(s);
}

/* Readers may look at free objects of such a cache (SLAB_DEBUG-D5). */
static void a_type_stable_object_is_not_written_to(void **state)
{
	struct kmem_cache *s = checked("stable", FZPU | SLAB_TYPESAFE_BY_RCU);
	char *object = take(s);

	(void)state;
	memset(object, 's', 32);
	kmem_cache_free(s, object);
	assert_int_equal(object[0], 's');
	object[0] = 't';
	capture_begin(&captured);
	object = take(s);
	assert_int_equal(capture_end(&captured), 0);
	assert_int_equal(object[0], 't');
	kmem_cache_free(s, object);
	end(s);
}

static void leaks_by_stack(void **state)
{
	struct kmem_cache *s = checked("leaky", FZPU);
	void *objects[4];

	(void)state;
	/* One call: compilers may make several of one in a loop. */
	CHECK(kmem_cache_alloc_bulk(s, GFP_KERNEL, 3, objects) == 3);
	objects[3] = take(s);
	capture_begin(&captured);
	kmem_cache_destroy(s);
	assert_true(capture_end(&captured) > 0);
	mask(&masked, captured.text);
	assert_non_null(strstr(masked.text,
			       "libsheaf: LEAK leaky: 4 objects of 32 bytes in "
			       "use when it is destroyed, by the stack that allocated them:\n"
			       "3 objects of 96 bytes, such as PTR, allocated "));
	assert_non_null(strstr(masked.text, " ms ago by thread N\n"
					    "1 object of 32 bytes, such as PTR, allocated N ms ago "
					    "by thread N\n"));
	for (int i = 0; i < 4; i++)
		kmem_cache_free(s, objects[i]);
}

static void traces(void **state)
{
	struct kmem_cache *s = checked("traced", SLAB_TRACE);
	void *object;

	(void)state;
	capture_begin(&captured);
	object = take(s);
	kmem_cache_free(s, object);
	kmem_cache_free_rcu(s, take(s));
	assert_int_equal(capture_end(&captured), 4);
	assert_memory_equal(captured.text, "libsheaf: TRACE traced alloc 0x", 31);
	assert_non_null(strstr(captured.text, "libsheaf: TRACE traced free 0x"));
	assert_non_null(strstr(captured.text, "libsheaf: TRACE traced retire 0x"));
	capture_begin(&captured);
	kvfree_rcu_barrier();
	assert_int_equal(capture_end_deferred(&captured), 1);
	end(s);
}

/* Each letter works alone. */
static void letters_by_themselves(void **state)
{
	struct kmem_cache *s = checked("only-z", SLAB_RED_ZONE);
	char *object = take(s);

	(void)state;
	object[32] = 0;
	capture_begin(&captured);
	kmem_cache_free(s, object);
	assert_true(capture_end(&captured) > 0);
	end(s);
	s = checked("only-p", SLAB_POISON);
	object = take(s);
	kmem_cache_free(s, object);
	object[0] = 0;
	capture_begin(&captured);
	kmem_cache_free(s, take(s));
	assert_true(capture_end(&captured) > 0);
	end(s);
}

/* SLAB_DEBUG-D4: what was found is repaired, and the next mistake is found, too. */
static void goes_on(void **state)
{
	struct kmem_cache *s = checked("goes-on", FZPU);

	(void)state;
	for (int i = 0; i < 3; i++) {
		char *object = take(s);

		object[32 + i] = 0;
		capture_begin(&captured);
		kmem_cache_free(s, object);
		assert_true(capture_end(&captured) > 0);
		capture_begin(&captured);
		kmem_cache_free(s, object);
		assert_true(capture_end(&captured) > 0);
	}
	end(s);
}

static struct kmem_cache *raced;

static void *free_it(void *object)
{
	kmem_cache_free(raced, object);
	return NULL;
}

/* Of two threads that free an object at the same time, one gets a report (SLAB_DEBUG-D1). */
static void racing_frees(void **state)
{
	struct kmem_cache *s = checked("racing", FZPU);

	(void)state;
#if HAS_TSAN
	/* The report reads bytes that the other thread is just filling. */
	skip();
#endif
	raced = s;
	for (int i = 0; i < 200; i++) {
		void *object = take(s);
		unsigned int before = hook_reports();
		pthread_t thread;

		capture_begin(&captured);
		pthread_create(&thread, NULL, free_it, object);
		kmem_cache_free(s, object);
		pthread_join(thread, NULL);
		capture_end_deferred(&captured);
		assert_int_equal(hook_reports() - before, 1);
	}
	end(s);
}

static struct kmem_cache *shown;

static void free_twice(void)
{
	void *object = take(shown);

	kmem_cache_free(shown, object);
	kmem_cache_free(shown, object);
	fputs("not reached\n", stderr);
}

/* Options are read once: a new image of the program. */
static void free_twice_and_stop(void)
{
	CHECK(setenv("SHEAF_OPTIONS", "panic_on_warn", 1) == 0);
	start_again("panic");
}

/* With panic_on_warn the whole report is written, and nothing after it. */
static void panic(void **state)
{
	int status;

	(void)state;
	capture_begin(&captured);
	status = in_child(free_twice_and_stop);
	capture_end(&captured);
	needs_image(status);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_non_null(strstr(captured.text, "TRY panic: "));
	assert_null(strstr(captured.text, "not reached"));
}

static void in_handler(int number)
{
	void *object = kmem_cache_alloc_nolock(shown, GFP_NOWAIT);

	(void)number;
	CHECK(object);
	kmem_cache_free_nolock(shown, object);
	kmem_cache_free_nolock(shown, object);
}

/* Standard error is closed, or full without a reader: the program continues, also in a signal
 * handler. */
static void in_bad_places(void)
{
	int ends[2];

	CHECK(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
	close(STDERR_FILENO);
	free_twice();
	while (write(ends[1], "full", 4) > 0)
		;
	CHECK(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
	signal(SIGUSR1, in_handler);
	raise(SIGUSR1);
	CHECK(kmem_cache_verify(shown) == 0);
}

static void reports_in_bad_places(void **state)
{
	(void)state;
	shown = checked("places", FZPU);
	kmem_cache_free(shown, take(shown));
	assert_int_equal(in_child(in_bad_places), 0);
	end(shown);
}

/* Threads that report while the process forks; the child reports, too. */
static void *report_often(void *unused)
{
	for (int i = 0; i < 300; i++)
		free_twice();
	return unused;
}

static void forks_while_reporting(void **state)
{
	pthread_t thread;

	(void)state;
#if HAS_TSAN
	skip(); /* a child reports that it misses the thread */
#endif
	shown = checked("forked", FZPU);
	capture_begin(&captured);
	pthread_create(&thread, NULL, report_often, NULL);
	for (int i = 0; i < 20; i++)
		assert_int_equal(in_child(free_twice), 0);
	pthread_join(thread, NULL);
	capture_end_deferred(&captured);
	end(shown);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waits_for_a_grace_period),
		cmocka_unit_test(checked_after_the_grace_period),
		cmocka_unit_test(uninitialised_use),
		cmocka_unit_test(a_constructed_object_keeps_its_state),
		cmocka_unit_test(a_type_stable_object_is_not_written_to),
		cmocka_unit_test(leaks_by_stack),
		cmocka_unit_test(traces),
		cmocka_unit_test(letters_by_themselves),
		cmocka_unit_test(goes_on),
		cmocka_unit_test(racing_frees),
		cmocka_unit_test(panic),
		cmocka_unit_test(reports_in_bad_places),
		cmocka_unit_test(forks_while_reporting),
	};

	(void)argv;
	sheaf_rcu_register(&by_hand_ops);
	/* A sanitizer would end the program at the first misuse. */
	hook_leave_tools();
	if (argc > 1) {
		shown = checked("panic", FZPU);
		free_twice();
		return 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
