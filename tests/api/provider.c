/* SPDX-License-Identifier: MIT */
/* Providers of grace periods as programs register them: from an older header, from a newer one,
 * wrong ones. */
#include <errno.h>
#include <sheaf/rcu.h>
#include <string.h>

#include "kit/by_hand.h"
#include "kit/capture.h"
#include "kit/unit.h"

static struct capture captured;

/* Fields that a later header may have. */
struct newer {
	struct sheaf_rcu_ops known;
	void (*unknown)(void);
};

static void nothing(void)
{
}

static struct kmem_cache *cache_with(const struct sheaf_rcu_ops *ops)
{
	struct kmem_cache_args args = {.rcu = ops};

	return kmem_cache_create("provided", 64, &args, SLAB_TYPESAFE_BY_RCU);
}

/* Objects wait for its grace periods. */
static void works(const struct sheaf_rcu_ops *ops)
{
	struct kmem_cache *s = cache_with(ops);
	unsigned int barriers = by_hand.barriers;
	void *object;

	assert_non_null(s);
	object = kmem_cache_alloc(s, GFP_KERNEL);
	kmem_cache_free_rcu(s, object);
	kvfree_rcu_barrier_on_cache(s);
	assert_true(by_hand.barriers > barriers);
	capture_begin(&captured);
	kmem_cache_destroy(s);
	assert_int_equal(capture_end(&captured), 0);
}

/* Registration fails, for the process and for a cache, with one line each that has this word. */
static void is_refused(const struct sheaf_rcu_ops *ops, const char *word)
{
	capture_begin(&captured);
	assert_int_equal(sheaf_rcu_register(ops), -EINVAL);
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, word));
	if (!ops)
		return;
	capture_begin(&captured);
	assert_null(cache_with(ops));
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, word));
}

/* The bytes after its size belong to others. */
static void an_older_one_works(void **state)
{
	static struct sheaf_rcu_ops older;

	(void)state;
	memset(&older, 0xff, sizeof(older));
	older.size = offsetof(struct sheaf_rcu_ops, start_poll);
	older.name = "older";
	older.call = by_hand_call;
	older.barrier = by_hand_barrier;
	works(&older);
}

static void disturb(void)
{
	errno = EIO;
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
}

/* What a barrier() of the program changes is as before when the library's call returns. */
static void a_barrier_changes_nothing_of_the_thread(void **state)
{
	struct kmem_cache *s = cache_with(&by_hand_ops);
	int before, after;

	(void)state;
	assert_non_null(s);
	assert_int_equal(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before), 0);
	kmem_cache_free_rcu(s, kmem_cache_alloc(s, GFP_KERNEL));
	by_hand.in_barrier = disturb;
	errno = 77;
	kvfree_rcu_barrier_on_cache(s);
	by_hand.in_barrier = NULL;
	assert_int_equal(errno, 77);
	assert_int_equal(pthread_setcancelstate(before, &after), 0);
	assert_int_equal(after, PTHREAD_CANCEL_DISABLE);
	kmem_cache_destroy(s);
}

static void a_newer_one_works_that_says_nothing_new(void **state)
{
	static struct newer newer = {.known = {.size = sizeof(struct newer),
					       .name = "newer",
					       .call = by_hand_call,
					       .barrier = by_hand_barrier}};
	static struct newer refused;

	(void)state;
	works(&newer.known);
	refused = newer;
	refused.unknown = nothing;
	is_refused(&refused.known, "does not know");
}

static void wrong_ones_are_refused(void **state)
{
	struct sheaf_rcu_ops ops = by_hand_ops;

	(void)state;
	is_refused(NULL, "NULL");
	ops.size = 0;
	is_refused(&ops, "sizeof(struct sheaf_rcu_ops)");
	ops.size = SIZE_MAX;
	is_refused(&ops, "sizeof(struct sheaf_rcu_ops)");
	/* No header has a structure that ends within a call. */
	ops.size = offsetof(struct sheaf_rcu_ops, barrier) + sizeof(ops.barrier) / 2;
	is_refused(&ops, "sizeof(struct sheaf_rcu_ops)");
	ops.size = sizeof(ops) + 1;
	is_refused(&ops, "sizeof(struct sheaf_rcu_ops)");
	ops.size = offsetof(struct sheaf_rcu_ops, barrier);
	is_refused(&ops, "barrier()");
	ops = by_hand_ops;
	ops.name = NULL;
	is_refused(&ops, "name");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_older_one_works),
		cmocka_unit_test(a_barrier_changes_nothing_of_the_thread),
		cmocka_unit_test(a_newer_one_works_that_says_nothing_new),
		cmocka_unit_test(wrong_ones_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
