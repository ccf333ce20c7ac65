/* SPDX-License-Identifier: MIT */
/*
 * A creation that fails because the system refuses memory succeeds when it no longer does: also
 * where it was to begin a row of counters, which other processes read. A CPU without such a row
 * uses slabs, and no sheaves.
 */
#include <sheaf/slab.h>
#include <stdio.h>
#include <string.h>

#include "kit/by_hand.h"
#include "kit/cache.h"
#include "kit/needs.h"
#include "kit/process.h"
#include "kit/refuse_some.h"
#include "kit/unit.h"

enum {
	CACHES = 1500 /* more than there is room for without a call of the system */
};

static void creations_succeed_again(void **state)
{
	struct kmem_cache *s;
	char name[32];

	(void)state;
	kmem_cache_destroy(kmem_cache_create("first", 64, NULL, SLAB_NO_MERGE));
	for (int i = 0; i < CACHES; i++) {
		snprintf(name, sizeof(name), "cache %d", i);
		refuse_begin(100);
		s = kmem_cache_create(name, 64, NULL, SLAB_NO_MERGE);
		refuse_begin(0);
		if (!s)
			s = kmem_cache_create(name, 64, NULL, SLAB_NO_MERGE);
		assert_non_null(s);
	}
}

static unsigned int passed, left;

/* These points are not refused, and then each one. */
static bool refuse_later(const char *point)
{
	(void)point;
	return !left || !left--;
}

static void creations_fail_at_any_point(void **state)
{
	struct kmem_cache *s;
	char name[32];

	(void)state;
	for (int i = 0; i < CACHES; i++) {
		snprintf(name, sizeof(name), "later %d", i);
		left = passed++ % 8;
		hook_fail_by(refuse_later);
		s = kmem_cache_create(name, 64, NULL, SLAB_NO_MERGE);
		hook_fail_by(NULL);
		if (!s)
			s = kmem_cache_create(name, 64, NULL, SLAB_NO_MERGE);
		assert_non_null(s);
		kmem_cache_destroy(s);
	}
}

/* Only the one after these. */
static bool refuse_one(const char *point)
{
	(void)point;
	return left-- == 0;
}

enum {
	USERS = 70, /* more than a provider has places for without another block */
	TRIES = 5
};

static struct kmem_cache *users[USERS];

static void destroy_users(void)
{
	for (int i = 0; i < USERS; i++) {
		assert_int_equal(kmem_cache_verify(users[i]), 0);
		kmem_cache_destroy(users[i]);
	}
	by_hand_pass();
}

/* The cache's slabs are a user of its provider. Without sheaves, an object leaks for which there is
 * no memory. */
static void creations_of_users_fail_at_any_point(void **state)
{
	static struct sheaf_rcu_ops provider;
	struct kmem_cache_args args = {.rcu = &provider};

	(void)state;
	needs(NEED_SHEAVES);
	provider = by_hand_ops;
	for (int i = 0; i < USERS; i++) {
		users[i] = NULL;
		for (unsigned int n = 0; !users[i]; n++) {
			left = n;
			hook_fail_by(refuse_later);
			users[i] = kmem_cache_create("typesafe", 64, &args, SLAB_TYPESAFE_BY_RCU);
			hook_fail_by(NULL);
		}
		kmem_cache_free(users[i], kmem_cache_alloc(users[i], GFP_KERNEL));
	}
	destroy_users();
}

/* So are its retired objects. Each is freed, whichever memory there is for them. */
static void first_retired_objects_meet_refusals(void **state)
{
	static struct sheaf_rcu_ops provider;
	struct kmem_cache_args args = {.rcu = &provider};
	void *objects[TRIES];

	(void)state;
	needs(NEED_SHEAVES);
	provider = by_hand_ops;
	for (int i = 0; i < USERS; i++) {
		users[i] = kmem_cache_create("retires", 64, &args, 0);
		assert_non_null(users[i]);
		assert_int_equal(kmem_cache_alloc_bulk(users[i], GFP_KERNEL, TRIES, objects),
				 TRIES);
		for (unsigned int n = 0; n < TRIES; n++) {
			left = n;
			hook_fail_by(refuse_one);
			kmem_cache_free_rcu(users[i], objects[n]);
			hook_fail_by(NULL);
		}
		assert_true(all_freed(users[i]));
	}
	destroy_users();
}

/* Neither a page of the file of counters, nor one of the process's own. */
static bool refuse_counters(const char *point)
{
	return !strcmp(point, "fallocate") || !strcmp(point, "mmap");
}

static void objects_without_counters(void **state)
{
	struct kmem_cache *s = make("uncounted", 64, 0);
	void *objects[6];

	(void)state;
	hook_fail_by(refuse_counters);
	for (int node = 0; node < 2; node++) {
		objects[0] = kmem_cache_alloc(s, GFP_KERNEL);
		objects[1] = kmem_cache_alloc_nolock(s, 0);
		objects[2] = kmem_cache_alloc_node(s, GFP_KERNEL, node);
		assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, 3, objects + 3), 3);
		kmem_cache_free(s, objects[0]);
		kmem_cache_free_nolock(s, objects[1]);
		kmem_cache_free(s, objects[2]);
		kmem_cache_free_rcu(s, objects[3]);
		kmem_cache_free_bulk(s, 2, objects + 4);
		by_hand_pass();
	}
	hook_fail_by(NULL);
	kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	assert_true(all_freed(s));
	assert_int_equal(kmem_cache_verify(s), 0);
	kmem_cache_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_without_counters),
		cmocka_unit_test(creations_succeed_again),
		cmocka_unit_test(creations_fail_at_any_point),
		cmocka_unit_test(creations_of_users_fail_at_any_point),
		cmocka_unit_test(first_retired_objects_meet_refusals),
	};

	sheaf_rcu_register(&by_hand_ops);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
