/* SPDX-License-Identifier: MIT */
/*
 * Functions of the program that are left by longjmp(), or appear to be because they switched to a
 * stack at a higher address: the library continues to work.
 */
#include <errno.h>
#include <sheaf/debug.h>
#include <sheaf/group.h>
#include <sheaf/kmalloc.h>
#include <sheaf/limit.h>
#include <sheaf/shrinker.h>
#include <sheaf/trim.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/hooks.h"
#include "kit/unit.h"

enum {
	STACK = 256 << 10,
	RECORDS = 16 /* reports that the library can store at a time */
};

static struct kmem_cache *s;
static jmp_buf out;

static void reported_once(struct capture *captured)
{
	assert_int_equal(capture_end_deferred(captured), 1);
	assert_non_null(strstr(captured->text, "left by longjmp() or an exception"));
}

static __attribute__((noinline)) bool returns(void (*call)(void))
{
	if (setjmp(out))
		return false;
	call();
	return true;
}

static void misuse(void)
{
	char object;

	kmem_cache_free(s, &object);
}

/* --- reports ---------------------------------------------------------------------------------- */

static unsigned int reports;

static void jump_out(void *data, const char *text, size_t length)
{
	(void)data, (void)text, (void)length;
	if (reports++ < 2)
		longjmp(out, 1);
}

/* The next report gets there, too, and another function can be set. */
static void a_report_is_left(void **state)
{
	struct capture captured;

	(void)state;
	hook_forget_misuse();
	reports = 0;
	assert_int_equal(sheaf_set_report(jump_out, NULL, NULL), 0);
	assert_false(returns(misuse));
	assert_false(returns(misuse));
	assert_int_equal(reports, 2);
	assert_int_equal(sheaf_set_report(NULL, NULL, NULL), 0);
	capture_begin(&captured);
	reported_once(&captured);
}

static void always_jump_out(void *data, const char *text, size_t length)
{
	(void)data, (void)text, (void)length;
	reports++;
	longjmp(out, 1);
}

static void report_a_line(void)
{
	hook_forget_misuse();
	assert_int_equal(sheaf_set_limits(2, 1), -EINVAL);
}

/* More than there are places for. */
static void many_reports_are_left(void **state)
{
	struct capture captured;

	(void)state;
	reports = 0;
	assert_int_equal(sheaf_set_report(always_jump_out, NULL, NULL), 0);
	for (unsigned int i = 0; i < 2 * RECORDS; i++)
		assert_false(returns(report_a_line));
	assert_true(reports >= 2 * RECORDS);
	assert_int_equal(sheaf_set_report(NULL, NULL, NULL), 0);
	capture_begin(&captured);
	report_a_line();
	assert_int_equal(capture_end_deferred(&captured), 1);
	assert_non_null(strstr(captured.text, "the soft limit is above the hard one"));
}

static ucontext_t low, high, back;

static void misuse_and_go_back(void)
{
	misuse();
	swapcontext(&high, &low);
}

static void switch_once(void *data, const char *text, size_t length)
{
	(void)data, (void)text, (void)length;
	if (!reports++)
		swapcontext(&low, &high);
}

static void make_coroutine(ucontext_t *context, char *stack, void (*run)(void))
{
	assert_int_equal(getcontext(context), 0);
	context->uc_stack.ss_sp = stack;
	context->uc_stack.ss_size = STACK;
	context->uc_link = &back;
	makecontext(context, run, 0);
}

/* A report from the coroutine on the higher stack looks as if the first callback had been left. */
static void a_report_switches_stacks(void **state)
{
	char *stacks =
		mmap(NULL, 2 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct capture captured;

	(void)state;
	assert_ptr_not_equal(stacks, MAP_FAILED);
	capture_begin(&captured);
	reports = 0;
	assert_int_equal(sheaf_set_report(switch_once, NULL, NULL), 0);
	make_coroutine(&low, stacks, misuse);
	make_coroutine(&high, stacks + STACK, misuse_and_go_back);
	assert_int_equal(swapcontext(&back, &low), 0);
	assert_int_equal(reports, 2);
	assert_false(hook_in_program());
	misuse();
	assert_int_equal(sheaf_set_report(NULL, NULL, NULL), 0);
	assert_true(capture_end_deferred(&captured) <= 1);
	assert_int_equal(munmap(stacks, 2 * STACK), 0);
}

/* --- shrinkers -------------------------------------------------------------------------------- */

static unsigned int asked;

static unsigned long count(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)shrinker, (void)sc;
	asked++;
	return 1;
}

static unsigned long scan(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)sc;
	if (shrinker->private_data)
		longjmp(out, 1);
	return 1;
}

static struct shrinker *make_shrinker(bool jumps)
{
	struct shrinker *shrinker = shrinker_alloc(0, "test");

	assert_non_null(shrinker);
	shrinker->count_objects = count;
	shrinker->scan_objects = scan;
	shrinker->private_data = jumps ? &out : NULL;
	shrinker_register(shrinker);
	return shrinker;
}

static void trim(void)
{
	sheaf_trim(0);
}

/* The next trim calls all of them again. */
static void a_shrinker_is_left(void **state)
{
	struct shrinker *first = make_shrinker(false), *jumps = make_shrinker(true),
			*last = make_shrinker(false);
	struct capture captured;

	(void)state;
	capture_begin(&captured);
	asked = 0;
	assert_false(returns(trim));
	assert_int_equal(asked, 2);
	assert_false(returns(trim));
	assert_int_equal(asked, 4);
	jumps->private_data = NULL;
	assert_true(returns(trim));
	assert_int_equal(asked, 7);
	reported_once(&captured);
	shrinker_free(last);
	shrinker_free(jumps);
	shrinker_free(first);
}

static bool goes_back; /* inside the other coroutine's call, or after it */

static void trim_and_go_back(void)
{
	sheaf_trim(0);
	if (!goes_back)
		swapcontext(&high, &low);
}

static unsigned long one(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)shrinker, (void)sc;
	return 1;
}

static unsigned long switch_stacks(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)shrinker, (void)sc;
	if (++asked == 1)
		swapcontext(&low, &high);
	else if (asked == 2 && goes_back)
		swapcontext(&high, &low);
	return 1;
}

/* The callback of the lower stack seems left, and goes on while the other call runs, or later. */
static void a_shrinker_switches_stacks(void **state)
{
	char *stacks =
		mmap(NULL, 2 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct shrinker *shrinker = make_shrinker(false);
	struct capture captured;

	(void)state;
	assert_ptr_not_equal(stacks, MAP_FAILED);
	shrinker->scan_objects = switch_stacks;
	capture_begin(&captured);
	for (int i = 0; i < 2; i++) {
		goes_back = i;
		asked = 0;
		shrinker->count_objects = one;
		make_coroutine(&low, stacks, trim);
		make_coroutine(&high, stacks + STACK, trim_and_go_back);
		assert_int_equal(swapcontext(&back, &low), 0);
		assert_int_equal(asked, 2);
		/* It ends, if it has not. */
		if (goes_back)
			assert_int_equal(swapcontext(&back, &high), 0);
		assert_true(returns(trim));
		assert_int_equal(asked, 3);
	}
	assert_true(capture_end_deferred(&captured) <= 1);
	shrinker_free(shrinker);
	assert_int_equal(munmap(stacks, 2 * STACK), 0);
}

/* --- groups ----------------------------------------------------------------------------------- */

static struct kmem_group *group;
static unsigned int called, ended;

static bool jump_out_of_reclaim(struct kmem_group *g, size_t bytes, void *data)
{
	(void)g, (void)bytes, (void)data;
	called++;
	if (called <= 2)
		longjmp(out, 1);
	return false;
}

static void jump_out_of_event(struct kmem_group *g, enum kmem_group_event what, uint64_t bytes,
			      void *data)
{
	(void)g, (void)what, (void)bytes, (void)data;
	called++;
	longjmp(out, 1);
}

static void end_data(void *data)
{
	(void)data;
	ended++;
}

static void make_group(struct kmem_group_args args)
{
	hook_forget_misuse();
	called = ended = 0;
	args.end = end_data;
	group = kmem_group_create("left", NULL, &args);
	assert_non_null(group);
}

static void exceed(void)
{
	assert_null(kmalloc_charged(64 << 10, GFP_KERNEL, group));
}

static void pass_the_mark(void)
{
	/* The event is at the end of the call, which returns no block. */
	assert_null(kmalloc_charged(1000, GFP_KERNEL, group));
}

/* It is called again, and its reference is dropped. */
static void a_reclaim_callback_is_left(void **state)
{
	struct capture captured;

	(void)state;
	make_group((struct kmem_group_args){.hard_limit = 4096, .reclaim = jump_out_of_reclaim});
	capture_begin(&captured);
	assert_false(returns(exceed));
	assert_false(returns(exceed));
	assert_true(returns(exceed));
	assert_int_equal(called, 3);
	assert_int_equal(ended, 0);
	kmem_group_put(group);
	assert_int_equal(ended, 1);
	reported_once(&captured);
}

/* Threads that wait for it notice, too. */
static void an_event_callback_is_left(void **state)
{
	struct kmem_group_args args = {.high = 1, .event = jump_out_of_event};
	struct capture captured;

	(void)state;
	make_group(args);
	capture_begin(&captured);
	assert_false(returns(pass_the_mark));
	args.data = &args;
	args.end = end_data;
	assert_int_equal(kmem_group_set_limits(group, &args), 0);
	assert_int_equal(ended, 1);
	assert_int_equal(kmem_group_set_limits(group, NULL), 0);
	assert_int_equal(ended, 2);
	make_group(args);
	assert_false(returns(pass_the_mark));
	kmem_group_put(group);
	assert_int_equal(ended, 1);
	assert_false(hook_in_program());
	assert_int_equal(capture_end_deferred(&captured), 2);
	assert_int_equal(kmem_group_verify(), 0);
}

/* At the end of the next call, the event of the other group is reported. */
static void the_parent_goes_on(void **state)
{
	struct kmem_group_args args = {.high = 1, .event = jump_out_of_event, .end = end_data};
	struct kmem_group *parent;

	(void)state;
	make_group(args);
	parent = group;
	group = kmem_group_create("below", parent, &args);
	assert_non_null(group);
	assert_false(returns(pass_the_mark));
	assert_int_equal(called, 1);
	assert_false(returns(trim));
	assert_int_equal(called, 2);
	kmem_group_put(parent);
	assert_int_equal(ended, 0);
	kmem_group_put(group);
	assert_int_equal(ended, 2);
	assert_int_equal(kmem_group_verify(), 0);
}

static int set_up(void **state)
{
	(void)state;
	s = kmem_cache_create("callbacks", 64, NULL, SLAB_NO_MERGE);
	return s ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_report_is_left),
		cmocka_unit_test(many_reports_are_left),
		cmocka_unit_test(a_report_switches_stacks),
		cmocka_unit_test(a_shrinker_is_left),
		cmocka_unit_test(a_shrinker_switches_stacks),
		cmocka_unit_test(a_reclaim_callback_is_left),
		cmocka_unit_test(an_event_callback_is_left),
		cmocka_unit_test(the_parent_goes_on),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
