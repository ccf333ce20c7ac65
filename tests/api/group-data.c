/* SPDX-License-Identifier: MIT */
/* The data of a group's callbacks: when it ends, and that no callback uses it afterwards. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "kit/cache.h"
#include "kit/group_data.h"
#include "kit/process.h"

/* --- without a callback that runs ------------------------------------------------------------- */

static void ends_with_the_group(void **state)
{
	struct data data = {.ended = 0};
	struct kmem_group *g = group_with(&data);
	void *block = kmalloc_charged(SIZE, GFP_KERNEL, g);

	(void)state;
	assert_int_equal(data.called, 1);
	assert_ptr_equal(kmem_group_get(g), g);
	kmem_group_put(g);
	assert_int_equal(data.ended, 0);
	kmem_group_put(g);
	assert_int_equal(data.ended, 1);
	kfree(block);
	assert_int_equal(kmem_group_verify(), 0);
	assert_int_equal(data.ended, 1);
}

static void ends_when_replaced(void **state)
{
	struct data data = {.ended = 0}, other = {.ended = 0};
	struct kmem_group *g = group_with(&data);
	struct kmem_group_args args = args_of(&data);

	(void)state;
	args.hard_limit = 1 << 20;
	assert_int_equal(kmem_group_set_limits(g, &args), 0);
	assert_int_equal(data.ended, 0);
	assert_int_equal(set(&other, g), 0);
	assert_int_equal(data.ended, 1);
	assert_int_equal(kmem_group_set_limits(g, NULL), 0);
	assert_int_equal(other.ended, 1);
	kmem_group_put(g);
	assert_int_equal(data.ended, 1);
	assert_int_equal(other.ended, 1);
}

/* A call that fails changes nothing. */
static void does_not_end_by_failure(void **state)
{
	struct data data = {.ended = 0}, other = {.ended = 0};
	struct kmem_group *g = group_with(&data);
	struct kmem_group_args args = args_of(&other);
	void *block = kmalloc_charged(SIZE, GFP_KERNEL, g);

	(void)state;
	args.hard_limit = 1;
	assert_int_equal(kmem_group_set_limits(g, &args), -EBUSY);
	args = args_of(&other);
	args.low = 2;
	assert_int_equal(kmem_group_set_limits(g, &args), -EINVAL);
	assert_null(kmem_group_create("wrong", NULL, &args));
	assert_int_equal(data.ended, 0);
	assert_int_equal(other.ended, 0);
	kfree(block);
	kmem_group_put(g);
	assert_int_equal(data.ended, 1);
	assert_int_equal(other.ended, 0);
}

static void *leaves_the_last_reference(void *g)
{
	kmem_group_restore_current(g);
	return NULL;
}

static void ends_with_the_last_user(void **state)
{
	struct data data = {.ended = 0}, of_cache = {.ended = 0};
	struct kmem_cache_args args = {.group = group_with(&of_cache)};
	struct kmem_cache *s = kmem_cache_create("data", SIZE, &args, SLAB_NO_MERGE);
	pthread_t thread;

	(void)state;
	assert_int_equal(
		pthread_create(&thread, NULL, leaves_the_last_reference, group_with(&data)), 0);
	pthread_join(thread, NULL);
	assert_int_equal(data.ended, 1);
	assert_non_null(s);
	kmem_group_put(of_cache.g);
	assert_int_equal(of_cache.ended, 0);
	kmem_cache_destroy(s);
	assert_int_equal(of_cache.ended, 1);
}

/* --- in a callback ---------------------------------------------------------------------------- */

static void replaces_twice(struct data *data)
{
	assert_int_equal(set(&second, data->g), 0);
	assert_int_equal(first.ended, 0);
	assert_int_equal(set(&third, data->g), 0);
	assert_int_equal(first.ended, 0);
	assert_int_equal(second.ended, 1);
}

static void replaces_and_restores(struct data *data)
{
	assert_int_equal(set(&second, data->g), 0);
	assert_int_equal(set(&first, data->g), 0);
	assert_int_equal(second.ended, 1);
}

static void puts_it(struct data *data)
{
	kmem_group_put(data->g);
	assert_int_equal(data->ended, 0);
}

static void is_replaced_in_its_callback(void **state)
{
	struct kmem_group *g = group_with(&first);

	(void)state;
	first.then = replaces_twice;
	pass_the_mark(g);
	assert_int_equal(first.called, 1);
	assert_int_equal(first.ended, 1);
	assert_int_equal(third.ended, 0);
	kmem_group_put(g);
	assert_int_equal(third.ended, 1);
	assert_int_equal(first.ended + second.ended, 2);
}

static void is_restored_in_its_callback(void **state)
{
	struct kmem_group *g = group_with(&first);

	(void)state;
	first.then = replaces_and_restores;
	pass_the_mark(g);
	assert_int_equal(first.called, 1);
	assert_int_equal(first.ended, 0);
	kmem_group_put(g);
	assert_int_equal(first.ended, 1);
}

static void ends_in_its_callback(void **state)
{
	(void)state;
	first.then = puts_it;
	pass_the_mark(group_with(&first));
	assert_int_equal(first.called, 1);
	assert_int_equal(first.ended, 1);
}

/* --- while another thread's callback runs ----------------------------------------------------- */

static uint32_t first_goes_on;

/* Wait until the first thread waits for this callback. */
static void waits_for_the_first(struct data *data)
{
	(void)data;
	while (!__atomic_load_n(&first_goes_on, __ATOMIC_ACQUIRE))
		sched_yield();
	wait_until_first_sleeps();
}

static pthread_t begin_in_another_thread(void)
{
	pthread_t thread;

	first.then = waits_for_the_first;
	first_goes_on = 0;
	assert_int_equal(pthread_create(&thread, NULL, passes_the_mark, group_with(&first)), 0);
	while (!__atomic_load_n(&first.inside, __ATOMIC_ACQUIRE))
		sched_yield();
	__atomic_store_n(&first_goes_on, 1, __ATOMIC_RELEASE);
	return thread;
}

static void has_ended(pthread_t thread)
{
	assert_int_equal(__atomic_load_n(&first.inside, __ATOMIC_ACQUIRE), 0);
	assert_int_equal(__atomic_load_n(&first.ended, __ATOMIC_ACQUIRE), 1);
	assert_int_equal(first.called, 1);
	pthread_join(thread, NULL);
}

static void replacing_waits(void **state)
{
	pthread_t thread = begin_in_another_thread();

	(void)state;
	assert_int_equal(set(&second, first.g), 0);
	has_ended(thread);
	kmem_group_put(second.g);
	assert_int_equal(second.ended, 1);
}

/* Also if the data stays and only the functions change. */
static void replacing_functions_waits(void **state)
{
	pthread_t thread = begin_in_another_thread();
	struct kmem_group_args args = {.data = &first};

	(void)state;
	assert_int_equal(kmem_group_set_limits(first.g, &args), 0);
	assert_int_equal(__atomic_load_n(&first.inside, __ATOMIC_ACQUIRE), 0);
	assert_int_equal(first.ended, 0);
	pthread_join(thread, NULL);
	kmem_group_put(first.g);
	assert_int_equal(first.ended, 0);
}

static void putting_waits(void **state)
{
	pthread_t thread = begin_in_another_thread();

	(void)state;
	kmem_group_put(first.g);
	has_ended(thread);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ends_with_the_group),
		cmocka_unit_test(ends_when_replaced),
		cmocka_unit_test(does_not_end_by_failure),
		cmocka_unit_test(ends_with_the_last_user),
		cmocka_unit_test_setup(is_replaced_in_its_callback, set_up),
		cmocka_unit_test_setup(is_restored_in_its_callback, set_up),
		cmocka_unit_test_setup(ends_in_its_callback, set_up),
		cmocka_unit_test_setup(replacing_waits, set_up),
		cmocka_unit_test_setup(replacing_functions_waits, set_up),
		cmocka_unit_test_setup(putting_waits, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
