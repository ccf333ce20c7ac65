/* SPDX-License-Identifier: MIT */
/* Groups that were put too often, missing arguments, objects of a group that is over, frees of a
 * charged object to another cache. */
#include <errno.h>
#include <sheaf/group.h>
#include <string.h>

#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/process.h"
#include "kit/unit.h"

static struct capture captured;

static struct kmem_group *group(const char *name)
{
	struct kmem_group *g = kmem_group_create(name, NULL, NULL);

	assert_non_null(g);
	return g;
}

/* One report, which names the call. */
static void reported(const char *call)
{
	assert_int_equal(capture_end_deferred(&captured), 1);
	assert_non_null(strstr(captured.text, call));
	capture_begin(&captured);
}

/* Its memory is still a group's. */
static void put_too_often(void **state)
{
	struct kmem_group *g = group("gone");
	struct kmem_cache_args args = {.group = g};
	struct kmem_group_args limits = {.hard_limit = 1 << 20};
	struct kmem_cache *s = make("cache", 100, 0);
	void *object;

	(void)state;
	kmem_group_put(g);
	capture_begin(&captured);
	assert_int_equal(kmem_group_set_limits(g, &limits), -EINVAL);
	reported("kmem_group_set_limits(");
	assert_null(kmem_cache_create("of none", 100, &args, 0));
	reported("kmem_cache_create(");
	assert_null(kmem_group_create("below", g, NULL));
	reported("kmem_group_create(");
	/* Nobody pays. */
	object = kmem_cache_alloc_charged(s, GFP_KERNEL, g);
	reported("kmem_cache_alloc_charged(");
	assert_non_null(object);
	assert_null(kmem_group_of(object));
	kmem_cache_free(s, object);
	assert_int_equal(capture_end(&captured), 0);
	kmem_cache_destroy(s);
}

static void without_a_name(void **state)
{
	struct kmem_group_stats stats;
	struct kmem_group *g;

	(void)state;
	capture_begin(&captured);
	g = kmem_group_create(NULL, NULL, NULL);
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "kmem_group_create: the name is NULL"));
	assert_non_null(g);
	assert_int_equal(kmem_group_stats(g, &stats), 0);
	assert_string_equal(stats.name, "(no name)");
	kmem_group_put(g);
}

/* The objects of a group that is over count as its parent's: here the root's. */
static void objects_outlive_their_group(void **state)
{
	struct kmem_group *g = group("over");
	uint64_t before, after, bytes = 0;
	void *block = kmalloc_charged(100, GFP_KERNEL, g);

	(void)state;
	assert_non_null(block);
	assert_int_equal(kmem_group_count_objects(g, NULL, &bytes), 0);
	assert_true(bytes >= 100);
	assert_int_equal(kmem_group_count_objects(NULL, &before, NULL), 0);
	kmem_group_put(g);
	assert_int_equal(kmem_group_count_objects(NULL, &after, NULL), 0);
	assert_int_equal(after, before + 1);
	kfree(block);
}

/* It stays charged. */
static void to_another_cache(void **state)
{
	struct kmem_cache *s = make("right", 1000, SLAB_ACCOUNT),
			  *other = make("wrong", 1000, SLAB_ACCOUNT);
	struct kmem_group *g = group("payer"), *of;
	void *object, *others;

	(void)state;
	kmem_group_restore_current(kmem_group_get(g));
	object = kmem_cache_alloc(s, GFP_KERNEL);
	others = kmem_cache_alloc(other, GFP_KERNEL);
	assert_true(object && others);
	capture_begin(&captured);
	kmem_cache_free(other, object);
	kmem_cache_shrink(other);
	(void)capture_end_deferred(&captured);
	assert_int_equal(captured_reports(&captured), 1);
	of = kmem_group_of(object);
	assert_ptr_equal(of, g);
	kmem_group_put(of);
	kmem_cache_free(s, object);
	kmem_cache_free(other, others);
	assert_int_equal(kmem_group_verify(), 0);
	kmem_group_restore_current(NULL);
	kmem_group_put(g);
	kmem_cache_destroy(s);
	kmem_cache_destroy(other);
}

/* A set of caches charges its own objects, also before the first kmalloc(). */
static void set_without_kmalloc(void)
{
	kmem_buckets *set = kmem_buckets_create("set", 0, 0, 0, NULL);
	struct kmem_group *g = kmem_group_create("payer", NULL, NULL), *of;
	void *block;

	CHECK(set && g);
	kmem_group_restore_current(kmem_group_get(g));
	block = kmem_buckets_alloc(set, 100, GFP_KERNEL_ACCOUNT);
	CHECK(block);
	of = kmem_group_of(block);
	CHECK(of == g);
	kmem_group_put(of);
	kfree(block);
	CHECK(kmem_group_verify() == 0);
}

static void a_set_pays_before_kmalloc(void **state)
{
	(void)state;
	assert_int_equal(in_child(set_without_kmalloc), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_set_pays_before_kmalloc),
		cmocka_unit_test(put_too_often),
		cmocka_unit_test(without_a_name),
		cmocka_unit_test(objects_outlive_their_group),
		cmocka_unit_test(to_another_cache),
	};

	return cmocka_run_group_tests_name("group-wrong", tests, NULL, NULL);
}
