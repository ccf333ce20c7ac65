/* SPDX-License-Identifier: MIT */
/* A cache that was destroyed while objects were in use: they can still be freed, in every way, and
 * it refuses all other calls, with a line for each. */
#include <errno.h>
#include <string.h>

#include <sheaf/group.h>
#include <sheaf/kmalloc.h>
#include <sheaf/limit.h>
#include <sheaf/mempool.h>

#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/hooks.h"
#include "kit/provider.h"
#include "kit/unit.h"

enum {
	SIZE = 72,
	MANY = 400
};

static struct capture captured;
static struct kmem_cache *s;
static void *objects[MANY];

static bool alloc_fails(void)
{
	return !kmem_cache_alloc(s, GFP_KERNEL);
}

static bool zalloc_fails(void)
{
	return !kmem_cache_zalloc(s, GFP_KERNEL);
}

static bool alloc_node_fails(void)
{
	return !kmem_cache_alloc_node(s, GFP_KERNEL, 0);
}

static bool alloc_one_fails(void)
{
	void *object;

	return !kmem_cache_alloc_bulk(s, GFP_KERNEL, 1, &object);
}

static bool alloc_bulk_fails(void)
{
	void *some[4];

	return !kmem_cache_alloc_bulk(s, GFP_KERNEL, 4, some);
}

static bool alloc_nolock_fails(void)
{
	return !kmem_cache_alloc_nolock(s, 0);
}

static bool prefill_fails(void)
{
	return !kmem_cache_prefill_sheaf(s, GFP_KERNEL, 2);
}

static bool shrink_fails(void)
{
	return kmem_cache_shrink(s) == -EINVAL;
}

static bool set_limit_fails(void)
{
	return kmem_cache_set_limit(s, 1 << 20) < 0;
}

static bool set_capacity_fails(void)
{
	return kmem_cache_set_sheaf_capacity(s, 10) < 0;
}

static bool set_barn_fails(void)
{
	return kmem_cache_set_barn(s, 10, 0) < 0;
}

static bool set_min_partial_fails(void)
{
	return kmem_cache_set_min_partial(s, 10) < 0;
}

static bool pool_fails(void)
{
	return !mempool_create_slab_pool(2, s);
}

static const struct {
	bool (*fails)(void);
	const char *name;
} calls[] = {
	{alloc_fails, "kmem_cache_alloc("},
	{zalloc_fails, "kmem_cache_"},
	{alloc_node_fails, "kmem_cache_alloc_node("},
	{alloc_one_fails, "kmem_cache_alloc"},
	{alloc_bulk_fails, "kmem_cache_alloc"},
	{alloc_nolock_fails, "kmem_cache_alloc_nolock("},
	{prefill_fails, "kmem_cache_prefill_sheaf("},
	{shrink_fails, "kmem_cache_shrink("},
	{set_limit_fails, "kmem_cache_set_limit("},
	{set_capacity_fails, "kmem_cache_set_sheaf_capacity("},
	{set_barn_fails, "kmem_cache_set_barn("},
	{set_min_partial_fails, "kmem_cache_set_min_partial("},
	{pool_fails, "mempool_create_slab_pool("},
};

static void all_else_is_refused(void)
{
	for (unsigned int i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		bool failed;

		capture_begin(&captured);
		failed = calls[i].fails();
		assert_int_equal(capture_end(&captured), 1);
		assert_true(failed);
		assert_non_null(strstr(captured.text, calls[i].name));
		assert_non_null(strstr(captured.text, "this cache was destroyed"));
	}
}

/* Objects in use, in the hands of the program and in a prefilled sheaf; then the cache goes. */
static struct slab_sheaf *leak(slab_flags_t flags)
{
	struct slab_sheaf *sheaf;

	s = make("leaked", SIZE, flags);
	for (unsigned int i = 0; i < MANY; i++) {
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
		assert_non_null(objects[i]);
		memset(objects[i], 0x33, SIZE);
	}
	sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 8);
	assert_non_null(sheaf);
	capture_begin(&captured);
	kmem_cache_destroy(s);
	assert_true(capture_end(&captured) > 1);
	return sheaf;
}

static void it_takes_objects_back(void **state)
{
	struct slab_sheaf *sheaf = leak(0);
	unsigned int i = 0;

	(void)state;
	all_else_is_refused();
	for (; i < MANY / 5; i++)
		kmem_cache_free(s, objects[i]);
	all_else_is_refused();
	kmem_cache_free_bulk(s, MANY / 5, objects + i);
	all_else_is_refused();
	for (i += MANY / 5; i < 3 * MANY / 5; i++)
		kfree(objects[i]);
	for (; i < 4 * MANY / 5; i++)
		kmem_cache_free_nolock(s, objects[i]);
	all_else_is_refused();
	for (; i < MANY; i++)
		kmem_cache_free_rcu(s, objects[i]);
	kvfree_rcu_barrier_on_cache(s);
	all_else_is_refused();
	assert_int_equal(kmem_cache_verify(s), 0);
	assert_int_equal(look(s).objects_in_use, kmem_cache_sheaf_size(sheaf));
	/* Its objects were allocated before. */
	kfree(kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, sheaf));
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	all_else_is_refused();
	assert_int_equal(look(s).objects_in_use, 0);
	assert_int_equal(kmem_cache_verify(s), 0);
}

/* The first group begins to charge caches with SLAB_ACCOUNT: not this one. */
static void groups_do_not_charge_it(void **state)
{
	struct slab_sheaf *sheaf = leak(SLAB_ACCOUNT);
	struct kmem_group *g = kmem_group_create("first", NULL, NULL), *before;

	(void)state;
	assert_non_null(g);
	before = kmem_group_set_current(g);
	all_else_is_refused();
	kmem_group_restore_current(before);
	kmem_cache_free_bulk(s, MANY, objects);
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	all_else_is_refused();
	assert_int_equal(look(s).objects_in_use, 0);
	assert_int_equal(kmem_cache_verify(s), 0);
	assert_int_equal(kmem_group_verify(), 0);
	kmem_group_put(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_takes_objects_back),
		cmocka_unit_test(groups_do_not_charge_it),
	};

	provider_register();
	/* A sanitizer would end the program at the first misuse. */
	hook_leave_tools();
	return cmocka_run_group_tests_name("leaked cache", tests, NULL, NULL);
}
