/* SPDX-License-Identifier: MIT */
/*
 * The spare rule, when a thread allocates the objects that it retired: the empty main becomes the
 * spare, the empty spare becomes the next rcu_free sheaf, and the barn takes no part. Without the
 * rule every empty sheaf goes through the barn.
 */
#include <sched.h>
#include <sheaf/rcu.h>
#include <sheaf/stats.h>
#include <stdint.h>

#include "kit/by_hand.h"
#include "kit/cache.h"
#include "kit/clock.h"
#include "kit/process.h"
#include "kit/unit.h"

enum {
	CAPACITY = 32,
	ROUNDS = 20,
	SHEAVES = 10 /* retired per round */
};

static struct kmem_cache *s;

/* Allocate and retire the objects of this many sheaves; then their grace period passes. */
static void do_round(void)
{
	for (unsigned int i = 0; i < SHEAVES * CAPACITY; i++) {
		void *object = kmem_cache_alloc(s, GFP_KERNEL);

		assert_non_null(object);
		kmem_cache_free_rcu(s, object);
	}
	by_hand_pass();
	by_hand_pass();
}

static void empty_sheaves_stay_with_their_cpu(void **state)
{
	static const struct kmem_cache_args args = {.sheaf_capacity = CAPACITY,
						    .rcu = &by_hand_ops};
	struct kmem_cache_stats before, after;
	uint64_t replaced, put, got;

	(void)state;
	pin((unsigned int)sched_getcpu());
	s = kmem_cache_create("spare", 256, &args, SLAB_NO_MERGE);
	assert_non_null(s);
	for (unsigned int i = 0; i < ROUNDS; i++)
		do_round();
	before = look(s);
	for (unsigned int i = 0; i < ROUNDS; i++)
		do_round();
	after = look(s);
	replaced = after.replace_empty_main - before.replace_empty_main;
	put = after.barn_put_empty - before.barn_put_empty;
	got = after.barn_get_empty - before.barn_get_empty;
	assert_in_range(replaced, ROUNDS * SHEAVES - ROUNDS, ROUNDS * SHEAVES + ROUNDS);
	if (has_option("slab_nospare")) {
		assert_in_range(put, replaced * 3 / 4, replaced * 2);
	} else {
		assert_true(put <= replaced / 10);
		assert_true(got <= replaced / 10);
	}
	kmem_cache_destroy(s);
}

/* A spare with objects remains the spare. */
static void full_spare_is_left_alone(void **state)
{
	static const struct kmem_cache_args args = {.sheaf_capacity = CAPACITY,
						    .rcu = &by_hand_ops};
	static void *held[3 * CAPACITY];
	struct kmem_cache_stats before;

	(void)state;
	s = kmem_cache_create("full spare", 256, &args, SLAB_NO_MERGE);
	assert_non_null(s);
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, 3 * CAPACITY, held), 3 * CAPACITY);
	kmem_cache_free_bulk(s, 2 * CAPACITY, held);
	before = look(s);
	for (unsigned int i = 2 * CAPACITY; i < 3 * CAPACITY; i++)
		kmem_cache_free_rcu(s, held[i]);
	assert_int_equal(look(s).objects_in_sheaves, before.objects_in_sheaves);
	assert_int_equal(look(s).barn_put, before.barn_put);
	assert_int_equal(look(s).sheaf_flush, before.sheaf_flush);
	assert_int_equal(kmem_cache_verify(s), 0);
	kmem_cache_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty_sheaves_stay_with_their_cpu),
		cmocka_unit_test(full_spare_is_left_alone),
	};

	clock_stands = true; /* or the sheaves of idle CPUs are emptied */
	return cmocka_run_group_tests_name("spare", tests, NULL, NULL);
}
