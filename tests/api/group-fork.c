/* SPDX-License-Identifier: MIT */
/* The data of a group's callbacks, in processes that fork while one runs. */
#include <pthread.h>
#include <sched.h>

#include "kit/group_data.h"
#include "kit/process.h"

static uint32_t first_goes_on;
static pid_t child = -1;

static void replaces_and_forks(struct data *data)
{
	assert_int_equal(set(&second, data->g), 0);
	child = fork();
	/* The callback that runs here has not ended. */
	pass_the_mark(data->g);
	assert_int_equal(data->ended, 0);
}

/* A callback that forks continues in both processes. */
static void in_both_processes(void **state)
{
	struct kmem_group *g = group_with(&first);

	(void)state;
	first.then = replaces_and_forks;
	pass_the_mark(g);
	assert_int_equal(first.ended, 1);
	kmem_group_put(g);
	assert_int_equal(second.ended, 1);
	if (!child)
		_exit(0);
	assert_int_equal(status_of(child), 0);
}

static void goes_on(struct data *data)
{
	(void)data;
	while (!__atomic_load_n(&first_goes_on, __ATOMIC_ACQUIRE))
		sched_yield();
}

/* The thread that called it has vanished in the child, with its reference. */
static void in_a_child_without_its_caller(void **state)
{
	pthread_t thread;

	(void)state;
	first.then = goes_on;
	first_goes_on = 0;
	assert_int_equal(pthread_create(&thread, NULL, passes_the_mark, group_with(&first)), 0);
	while (!__atomic_load_n(&first.inside, __ATOMIC_ACQUIRE))
		sched_yield();
	child = fork();
	if (!child) {
		first.inside = 0;
		kmem_group_put(first.g);
		_exit(first.ended != 1);
	}
	__atomic_store_n(&first_goes_on, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	assert_int_equal(status_of(child), 0);
	kmem_group_put(first.g);
	assert_int_equal(first.ended, 1);
}

/* The callback that vanishes has the last reference, and data that was replaced. */
static void replaces_puts_and_forks(struct data *data)
{
	(void)data;
	assert_int_equal(set(&second, first.g), 0);
	kmem_group_put(first.g);
	assert_int_equal(first.ended + second.ended, 0);
	child = fork();
	if (child)
		return;
	first.inside = 0;
	kfree(kmalloc_charged(SIZE, GFP_KERNEL, data->g));
	_exit(first.ended != 1 || second.ended != 1);
}

static void in_a_child_both_end(void **state)
{
	pthread_t thread;

	(void)state;
	first.then = goes_on;
	first_goes_on = 0;
	assert_int_equal(pthread_create(&thread, NULL, passes_the_mark, group_with(&first)), 0);
	while (!__atomic_load_n(&first.inside, __ATOMIC_ACQUIRE))
		sched_yield();
	third.then = replaces_puts_and_forks;
	pass_the_mark(group_with(&third));
	__atomic_store_n(&first_goes_on, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	assert_int_equal(status_of(child), 0);
	assert_int_equal(first.ended, 1);
	assert_int_equal(second.ended, 1);
	kmem_group_put(third.g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(in_both_processes, set_up),
		cmocka_unit_test_setup(in_a_child_without_its_caller, set_up),
		cmocka_unit_test_setup(in_a_child_both_end, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
