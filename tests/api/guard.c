/* SPDX-License-Identifier: MIT */
/*
 * Guarded objects (slab_debug=G): which accesses fault, the exact text of each report, and which
 * handler gets the signal. Each test runs in a separate child, which uses the library for the first
 * time.
 */
#include <pthread.h>
#include <setjmp.h>
#include <sheaf/debug.h>
#include <sheaf/kmalloc.h>
#include <sheaf/rcu.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/by_hand.h"
#include "kit/cache.h"
#include "kit/check.h"
#include "kit/guarded.h"
#include "kit/masked.h"
#include "kit/process.h"
#include "kit/unit.h"

#define HEAD(cache, what)                                                                          \
	"=============================================================================\n"          \
	"libsheaf: BUG " cache ": " what "\n"                                                      \
	"-----------------------------------------------------------------------------\n"
#define GUARDED(cache, size, state)                                                                \
	"Guarded object PTR @cache=" cache " size=" size ", " state "\n"                           \
	"Allocated N ms ago by thread N on CPU N\n"
#define FREED		      "Freed N ms ago by thread N on CPU N\n"
#define FOUND(by)	      "Found by " by ", PTR) in thread N on CPU N\n"
#define ENDS(cache, fix, try) "FIX " cache ": " fix "\nTRY " cache ": " try "\n"
#define AFTER_FREE(cache, into, access)                                                            \
	HEAD(cache, "Use after free")                                                              \
	"PTR is " into " bytes into an object\n" GUARDED(cache, "32", "free") FREED access ENDS(   \
		cache, HANDED, USED_AFTER)
#define HANDED	   "none; the signal is passed on to the previous handler"
#define USED_AFTER "look for a pointer to it that is used after the free"
#define IGNORED	   "the call was ignored"
#ifdef __x86_64__
#define READ  "Read of PTR in thread N on CPU N:\n"
#define WRITE "Write to PTR in thread N on CPU N:\n"
#else
#define READ  "Access to PTR in thread N on CPU N:\n"
#define WRITE READ
#endif

static struct capture captured;
static struct masked masked;
static volatile char sink;

/* How the child ended: its signal, or its status. */
static int ended(void (*body)(void))
{
	int status = in_child(body);

	return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

static void ends_with(int signal, void (*body)(void), const char *expected)
{
	int how;

	capture_begin(&captured);
	how = ended(body);
	assert_true(capture_end(&captured) >= 0);
	assert_string_equal(mask(&masked, captured.text), expected);
	assert_int_equal(how, signal);
}

/* One at the end of its pages, or at their start. */
static char *take(struct kmem_cache *s, bool at_start)
{
	for (;;) {
		char *object = kmem_cache_alloc(s, GFP_KERNEL);

		CHECK(is_guarded(object));
		if (((uintptr_t)object % (size_t)sysconf(_SC_PAGESIZE) == 0) == at_start)
			return object;
	}
}

/* --- accesses --------------------------------------------------------------------------------- */

static void read_freed(void)
{
	struct kmem_cache *s = make("read", 32, 0);
	char *object = take(s, false);

	kmem_cache_free(s, object);
	sink = object[5];
}

static void write_freed(void)
{
	struct kmem_cache *s = make("write", 32, 0);
	char *object = take(s, true);

	kmem_cache_free(s, object);
	object[31] = 1;
}

static void read_after_destroy(void)
{
	struct kmem_cache *s = make("gone", 32, 0);
	char *object = kmem_cache_alloc(s, GFP_KERNEL);

	kmem_cache_free(s, object);
	kmem_cache_destroy(s);
	sink = object[0];
}

static void use_after_free(void **state)
{
	(void)state;
	ends_with(SIGSEGV, read_freed, AFTER_FREE("read", "5", READ));
	ends_with(SIGSEGV, write_freed, AFTER_FREE("write", "31", WRITE));
	ends_with(SIGSEGV, read_after_destroy, AFTER_FREE("gone", "0", READ));
}

static void read_past_the_end(void)
{
	sink = take(make("right", 64, 0), false)[64 + 7];
}

static void write_in_front(void)
{
	take(make("left", 64, 0), true)[-3] = 1;
}

static void out_of_bounds(void **state)
{
	(void)state;
	ends_with(SIGSEGV, read_past_the_end,
		  HEAD("right",
		       "Out of bounds, right") "PTR is 7 bytes past the end of an "
					       "object\n" GUARDED("right", "64", "in use")
						       READ ENDS("right", HANDED,
								 "look for an index or a length "
								 "that is too large"));
	ends_with(
		SIGSEGV, write_in_front,
		HEAD("left",
		     "Out of bounds, left") "PTR is 3 bytes in front of an object\n" GUARDED("left",
											     "64",
											     "in "
											     "use")
			WRITE ENDS("left", HANDED,
				   "look for a negative index, or a pointer moved back too far"));
}

/* Retired objects may be read until their grace period has passed. */
static void use_after_grace(void)
{
	struct kmem_cache *s = make("rcu", 32, 0);
	char *object = take(s, false);
	struct sheaf_stats before, waiting;

	sheaf_rcu_register(&by_hand_ops);
	object[0] = 7;
	kfree_rcu_mightsleep(kmem_cache_alloc(s, GFP_KERNEL));
	sheaf_stats(&before);
	kmem_cache_free_rcu(s, object);
	sheaf_stats(&waiting);
	CHECK(waiting.rcu_bytes - before.rcu_bytes ==
	      (size_t)sysconf(_SC_PAGESIZE)); /* its own page */
	CHECK(object[0] == 7);
	kvfree_rcu_barrier();
	sink = object[0];
}

/* GUARD-G3 */
static void use_after_a_grace_period(void **state)
{
	(void)state;
	ends_with(SIGSEGV, use_after_grace, AFTER_FREE("rcu", "0", READ));
}

/* --- frees ------------------------------------------------------------------------------------ */

static void free_twice(void)
{
	struct kmem_cache *s = make("twice", 32, 0);
	char *object = take(s, false);

	kmem_cache_free(s, object);
	kmem_cache_free(s, object);
}

static void free_inside(void)
{
	struct kmem_cache *s = make("inside", 32, 0);

	kmem_cache_free(s, take(s, false) + 4);
}

static void free_elsewhere(void)
{
	char *object = take(make("mine", 32, 0), false);

	kmem_cache_free(make("yours", 32, 0), object);
}

static void free_retired(void)
{
	struct kmem_cache *s = make("retired", 32, 0);
	char *object = take(s, false);

	sheaf_rcu_register(&by_hand_ops);
	kmem_cache_free_rcu(s, object);
	kfree(object);
}

static void free_no_object(void)
{
	struct kmem_cache *s = make("none", 32, 0);

	kmem_cache_free(s, take(s, false) - 64);
}

static void wrong_frees(void **state)
{
	(void)state;
	ends_with(0, free_twice,
		  HEAD("twice", "Object already free") GUARDED("twice", "32", "free")
			  FREED FOUND("kmem_cache_free(twice")
				  ENDS("twice", IGNORED, "look for two owners that both free it"));
	ends_with(
		0, free_inside,
		HEAD("inside", "Invalid object pointer") "PTR is 4 bytes into an object\n" GUARDED(
			"inside", "32", "in use") FOUND("kmem_cache_free(inside")
			ENDS("inside", IGNORED, "pass the address that was allocated"));
	ends_with(0, free_elsewhere,
		  HEAD("yours", "Wrong slab cache") "PTR belongs to mine, not to yours\n" GUARDED(
			  "mine", "32", "in use") FOUND("kmem_cache_free(yours")
			  ENDS("yours", IGNORED,
			       "free it to the cache that it came from, or with kfree()"));
	ends_with(0, free_retired,
		  HEAD("retired", "Object waits for a grace period")
			  GUARDED("retired", "32", "waits for a grace period")
				  FREED FOUND("kfree(retired")
					  ENDS("retired", IGNORED,
					       "kfree_rcu() already frees it: remove one of the "
					       "two calls"));
	ends_with(0, free_no_object,
		  HEAD("none", "Invalid object pointer") "PTR is in no object\n" FOUND(
			  "kmem_cache_free(none")
			  ENDS("none", IGNORED, "pass the address that was allocated"));
}

static void write_beside(void)
{
	struct kmem_cache *s = make("beside", 40, 0);
	struct kmem_cache_args args = {.align = 64};
	char *object;

	s = kmem_cache_create("beside-64", 40, &args, 0);
	object = take(s, false);
	object[43] = 'x';
	kmem_cache_free(s, object);
	object = take(s, false);
	object[-1] = 'y';
	CHECK(kmem_cache_verify(s) == 1);
	CHECK(kmem_cache_verify(s) == 0);
}

static void write_behind_and_shrink(void)
{
	volatile size_t size = 100;
	char *block = kmalloc(size, GFP_KERNEL);

	block[size] = 1;
	kfree(krealloc(block, 98, GFP_KERNEL));
}

/* Not far enough to fault. */
static void red_zones(void **state)
{
	(void)state;
	capture_begin(&captured);
	assert_int_equal(ended(write_beside), 0);
	assert_true(capture_end(&captured) > 0);
	assert_non_null(strstr(captured.text, "BUG beside-64: Right Redzone overwritten\n"));
	assert_non_null(strstr(captured.text, "@offset=43..43. First byte 0x78 instead of 0xcc\n"));
	assert_non_null(strstr(captured.text, "BUG beside-64: Left Redzone overwritten\n"));
	assert_non_null(strstr(captured.text, "@offset=-1..-1. First byte 0x79 instead of 0xcc\n"));
	assert_non_null(strstr(captured.text, "Found by kmem_cache_verify(beside-64, "));
	capture_begin(&captured);
	assert_int_equal(ended(write_behind_and_shrink), 0);
	assert_true(capture_end(&captured) > 0);
	assert_non_null(strstr(captured.text, "@offset=100..100. First byte 0x01 instead of 0xcc"));
}

/* --- signals ---------------------------------------------------------------------------------- */

static void own_handler(int number)
{
	(void)number;
	_exit(3);
}

static void handled_before(void)
{
	signal(SIGSEGV, own_handler);
	read_freed();
}

static void ignored_before(void)
{
	signal(SIGSEGV, SIG_IGN);
	read_freed();
}

static sigjmp_buf back;
static volatile bool was_ours;

static void later_handler(int number, siginfo_t *info, void *context)
{
	was_ours = sheaf_explain_fault(info->si_addr, context);
	siglongjmp(back, number);
}

static void handled_later(void)
{
	struct sigaction action = {.sa_flags = SA_SIGINFO};
	struct kmem_cache *s = make("later", 32, 0);
	char *object = take(s, false), here;

	action.sa_sigaction = later_handler;
	sigaction(SIGSEGV, &action, NULL);
	kmem_cache_free(s, object);
	if (!sigsetjmp(back, 1))
		sink = *object;
	CHECK(was_ours);
	if (!sigsetjmp(back, 1))
		raise(SIGSEGV);
	CHECK(!was_ours);
	CHECK(!sheaf_explain_fault(&here, NULL));
	_exit(4);
}

static void sent(void)
{
	make("sent", 32, 0);
	kill(getpid(), SIGSEGV);
	for (;;)
		pause();
}

static void not_ours(void)
{
	char *volatile nothing = (char *)1; /* a sanitizer reports NULL by itself */

	make("not-ours", 32, 0);
	*(volatile char *)nothing = 1;
}

static void one_report_ends_with(int how, void (*body)(void), bool explained)
{
	capture_begin(&captured);
	assert_int_equal(ended(body), how);
	capture_end(&captured);
	assert_int_equal(strstr(captured.text, "Use after free") != NULL, explained);
}

/* FAULT-F1 */
static void whoever_handled_it_before(void **state)
{
	(void)state;
	one_report_ends_with(-3, handled_before, true);
	one_report_ends_with(SIGSEGV, ignored_before, true);
	one_report_ends_with(-4, handled_later, true);
	one_report_ends_with(SIGSEGV, sent, false);
	one_report_ends_with(SIGSEGV, not_ours, false);
}

static void fault_in_child(void)
{
	struct kmem_cache *s = make("forked", 32, 0);
	char *object = take(s, false), *other = take(s, false);
	int status;
	pid_t child = fork();

	if (child == 0) {
		kmem_cache_free(s, object);
		sink = *object;
	}
	CHECK(waitpid(child, &status, 0) == child && WTERMSIG(status) == SIGSEGV);
	/* Here it is in use. */
	*object = 1;
	kmem_cache_free(s, object);
	kmem_cache_free(s, other);
}

static void forks(void **state)
{
	(void)state;
	one_report_ends_with(0, fault_in_child, true);
}

/* --- what else there is ----------------------------------------------------------------------- */

#define MANY 1000

static void sizes_and_places(void)
{
	for (size_t size = 1; size <= KMALLOC_MAX_CACHE_SIZE; size = size * 3 + 1)
		for (unsigned int align = 8; align <= 8192; align *= 4) {
			struct kmem_cache_args args = {.align = align};
			struct kmem_cache *s =
				kmem_cache_create("sizes", (unsigned int)size, &args, 0);

			for (int i = 0; i < 8; i++) {
				char *object = kmem_cache_zalloc(s, GFP_KERNEL);

				CHECK(is_guarded(object) && (uintptr_t)object % align == 0);
				CHECK(object[0] == 0 && object[size - 1] == 0);
				memset(object, 1, size);
				CHECK(ksize(object) == size && sheaf_owns(object + size - 1));
				kmem_cache_free(s, object);
			}
			kmem_cache_destroy(s);
		}
}

static void blocks(void)
{
	char *block = kmalloc(100, GFP_KERNEL);

	CHECK(is_guarded(block) && ksize(block) >= 100);
	memset(block, 1, 100);
	block = krealloc(block, 5000, GFP_KERNEL);
	CHECK(is_guarded(block) && block[99] == 1);
	block = krealloc(block, 10, GFP_KERNEL);
	kfree(block);
	/* It makes no cache. */
	kfree(kmalloc(64, GFP_KERNEL));
	block = kmalloc_nolock(64, GFP_NOWAIT, NUMA_NO_NODE);
	CHECK(is_guarded(block));
	kfree_nolock(block);
}

/* A slot is reused as late as possible. */
static void late_again(void)
{
	struct kmem_cache *s = make("late", 32, 0);
	char *first = kmem_cache_alloc(s, GFP_KERNEL);

	kmem_cache_free(s, first);
	for (int i = 0; i < MANY; i++) {
		char *object = kmem_cache_alloc(s, GFP_KERNEL);

		CHECK(is_guarded(object) &&
		      (object - first) / (ptrdiff_t)sysconf(_SC_PAGESIZE) != 0);
		kmem_cache_free(s, object);
	}
}

static void construct(void *object)
{
	*(int *)object = 42;
}

static void constructed_and_type_stable(void)
{
	struct kmem_cache *s = kmem_cache_create("constructed", 32, 0, 0, construct);
	int *object;

	for (int i = 0; i < MANY; i++) {
		object = kmem_cache_alloc(s, GFP_KERNEL);
		CHECK(is_guarded(object) && *object == 42);
		kmem_cache_free(s, object);
	}
	sheaf_rcu_register(&by_hand_ops);
	s = kmem_cache_create("type-stable", 32, NULL, SLAB_TYPESAFE_BY_RCU);
	object = kmem_cache_alloc(s, GFP_KERNEL);
	CHECK(!is_guarded(object));
	kmem_cache_free(s, object);
	*(volatile int *)object = 1;
}

static void frees_inside_a_type_stable_object(void)
{
	struct kmem_cache *s;
	char *object;

	sheaf_rcu_register(&by_hand_ops);
	s = kmem_cache_create("type-stable", 32, NULL, SLAB_TYPESAFE_BY_RCU);
	object = kmem_cache_alloc(s, GFP_KERNEL);
	CHECK(object && !is_guarded(object));
	kmem_cache_free(s, object + 8);
	kmem_cache_free(s, object);
}

/* Its accesses do not fault, but its calls are checked. */
static void type_stable_objects_are_checked(void **state)
{
	int how;

	(void)state;
	capture_begin(&captured);
	how = ended(frees_inside_a_type_stable_object);
	capture_end(&captured);
	assert_int_equal(how, 0);
	assert_non_null(strstr(captured.text, "BUG type-stable: "));
}

static void silent(void (*body)(void))
{
	int how;

	capture_begin(&captured);
	how = ended(body);
	capture_end(&captured);
	assert_string_equal(captured.text, "");
	assert_int_equal(how, 0);
}

static void right_use_is_silent(void **state)
{
	(void)state;
	silent(sizes_and_places);
	silent(blocks);
	silent(late_again);
	silent(constructed_and_type_stable);
}

static void leave_two(void)
{
	struct kmem_cache *s = make("leaky", 32, 0);
	struct kmem_cache_stats stats;
	void *objects[MANY];

	CHECK(kmem_cache_alloc_bulk(s, GFP_KERNEL, MANY, objects) == MANY);
	CHECK(kmem_cache_stats(s, &stats) == 0 && stats.objects_in_use == MANY);
	CHECK(kmem_cache_verify(s) == 0);
	kmem_cache_free_bulk(s, MANY - 2, objects);
	CHECK(kmem_cache_stats(s, &stats) == 0 && stats.objects_in_use == 2);
	kmem_cache_destroy(s);
	/* They stay usable. */
	memset(objects[MANY - 1], 1, 32);
}

static void leaks_are_found(void **state)
{
	(void)state;
	capture_begin(&captured);
	assert_int_equal(ended(leave_two), 0);
	capture_end(&captured);
	assert_non_null(strstr(captured.text, "kmem_cache_destroy(leaky): 2 objects still in use"));
}

static void *free_it(void *object)
{
	kfree(object);
	return NULL;
}

static void race(void)
{
	struct kmem_cache *s = make("race", 32, 0);
	pthread_t threads[4];

	for (int i = 0; i < 20; i++) {
		void *object = kmem_cache_alloc(s, GFP_KERNEL);

		for (int t = 0; t < 4; t++)
			CHECK(pthread_create(&threads[t], NULL, free_it, object) == 0);
		for (int t = 0; t < 4; t++)
			pthread_join(threads[t], NULL);
	}
	CHECK(look(s).objects_in_use == 0);
	CHECK(kmem_cache_verify(s) == 0);
}

static void racing_frees(void **state)
{
	(void)state;
	capture_begin(&captured);
	assert_int_equal(ended(race), 0);
	capture_end(&captured);
	assert_non_null(strstr(captured.text, "BUG race: Object already free"));
}

static void use_traced(void)
{
	struct kmem_cache *s = kmem_cache_create("traced", 32, NULL, SLAB_TRACE);
	char *object = kmem_cache_alloc(s, GFP_KERNEL);

	CHECK(is_guarded(object));
	kmem_cache_free(s, object);
	CHECK(sheaf_rcu_register(&by_hand_ops) == 0);
	kmem_cache_free_rcu(s, kmem_cache_alloc(s, GFP_KERNEL));
}

static void traces(void **state)
{
	(void)state;
	capture_begin(&captured);
	assert_int_equal(ended(use_traced), 0);
	assert_int_equal(capture_end(&captured), 4);
	assert_non_null(strstr(captured.text, "libsheaf: TRACE traced alloc 0x"));
	assert_non_null(strstr(captured.text, "libsheaf: TRACE traced free 0x"));
	assert_non_null(strstr(captured.text, "libsheaf: TRACE traced retire 0x"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(use_after_free),
		cmocka_unit_test(out_of_bounds),
		cmocka_unit_test(use_after_a_grace_period),
		cmocka_unit_test(wrong_frees),
		cmocka_unit_test(red_zones),
		cmocka_unit_test(whoever_handled_it_before),
		cmocka_unit_test(forks),
		cmocka_unit_test(right_use_is_silent),
		cmocka_unit_test(type_stable_objects_are_checked),
		cmocka_unit_test(leaks_are_found),
		cmocka_unit_test(racing_frees),
		cmocka_unit_test(traces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
