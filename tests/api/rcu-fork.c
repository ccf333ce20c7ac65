/* SPDX-License-Identifier: MIT */
/* Retired pointers in a child whose parent has a batch in flight. */
#include <sheaf/kmalloc.h>
#include <sheaf/rcu.h>
#include <sheaf/stats.h>
#include <stdint.h>

#include "kit/by_hand.h"
#include "kit/check.h"
#include "kit/clock.h"
#include "kit/needs.h"
#include "kit/process.h"
#include "kit/unit.h"

struct retired_block {
	struct sheaf_rcu_head rcu;
};

static void retire_blocks(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		struct retired_block *block = kvmalloc(2 * KMALLOC_MAX_CACHE_SIZE, GFP_KERNEL);

		CHECK(block);
		kvfree_rcu(block, rcu);
	}
}

static uint64_t bytes_retired(void)
{
	struct sheaf_stats stats;

	sheaf_stats(&stats);
	return stats.rcu_bytes;
}

static struct kmem_cache *cache;

static void retire_one(void)
{
	void *object = kmem_cache_alloc(cache, GFP_KERNEL);

	CHECK(object);
	kmem_cache_free_rcu(cache, object);
}

static uint64_t objects_waiting(void)
{
	struct kmem_cache_stats stats;

	CHECK(kmem_cache_stats(cache, &stats) == 0);
	return stats.rcu_pending_objects;
}

/* Its parent's batch never returns, so the child's pointers need one of their own. */
static void retire_without_batch(void)
{
	by_hand.first = NULL;
	by_hand.end = &by_hand.first;
	retire_blocks(2);
	for (int i = 0; i < 4; i++) {
		clock_pass_ms(100);
		by_hand_pass();
	}
	CHECK(bytes_retired() == 0);
}

static void a_forked_child_frees_pointers(void **state)
{
	(void)state;
	assert_int_equal(sheaf_rcu_register(&by_hand_ops), 0);
	pin(0);
	kvfree_rcu_barrier();
	assert_int_equal(bytes_retired(), 0);
	retire_blocks(1);
	assert_int_equal(in_child(retire_without_batch), 0);
	kvfree_rcu_barrier();
	assert_int_equal(bytes_retired(), 0);
}

/* The child's first object finds the sheaf that its parent began to fill. */
static void retire_one_without_batch(void)
{
	by_hand.first = NULL;
	by_hand.end = &by_hand.first;
	retire_one();
	for (int i = 0; i < 4; i++) {
		clock_pass_ms(100);
		by_hand_pass();
	}
	CHECK(objects_waiting() == 0);
	CHECK(kmem_cache_verify(cache) == 0);
}

static void a_forked_child_frees_objects(void **state)
{
	(void)state;
	needs(NEED_SHEAVES);
	cache = kmem_cache_create("forked", 64, NULL, SLAB_NO_MERGE);
	assert_non_null(cache);
	retire_one();
	assert_true(objects_waiting() == 1);
	assert_int_equal(in_child(retire_one_without_batch), 0);
	kvfree_rcu_barrier();
	assert_true(objects_waiting() == 0);
	kmem_cache_destroy(cache);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_forked_child_frees_pointers),
		cmocka_unit_test(a_forked_child_frees_objects),
	};

	clock_stands = true;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
