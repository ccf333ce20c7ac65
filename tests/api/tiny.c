/* SPDX-License-Identifier: MIT */
/* slub_tiny: no sheaves, no empty slabs in reserve, small orders, and free memory returns to the
 * system. */
#include <errno.h>
#include <string.h>

#include <sheaf/slab.h>

#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/hooks.h"
#include "kit/unit.h"

enum {
	MANY = 100000,
	SIZE = 100
};

static struct capture captured;

static void no_cache_has_sheaves(void **state)
{
	const struct kmem_cache_args args = {.sheaf_capacity = 100, .barn_objects = 1000};
	struct kmem_cache *s = kmem_cache_create("asks", 64, &args, 0);

	(void)state;
	assert_int_equal(look(s).sheaf_capacity, 0);
	assert_int_equal(kmem_cache_set_sheaf_capacity(s, 10), -ENOTSUP);
	kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	kmem_cache_destroy(s);
}

static void slabs_are_small_and_go_back(void **state)
{
	void *block = kmalloc(700, GFP_KERNEL), *objects[200];
	struct kmem_cache *s = make("small", 700, 0);

	(void)state;
	assert_true(look(s).order <= 1);
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, 200, objects), 200);
	assert_true(look(s).slabs > 10);
	kmem_cache_free_bulk(s, 200, objects);
	assert_int_equal(look(s).slabs, 0);
	kmem_cache_destroy(s);
	s = make("large", 20000, 0);
	objects[0] = kmem_cache_alloc(s, GFP_KERNEL);
	assert_non_null(memset(objects[0], 1, 20000));
	kmem_cache_free(s, objects[0]);
	kmem_cache_destroy(s);
	kfree(block);
}

static void free_memory_goes_back(void **state)
{
	static void *objects[MANY];
	struct kmem_cache *s = make("many", SIZE, 0);

	(void)state;
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, MANY, objects), MANY);
	assert_true(library().used_bytes > (size_t)MANY * SIZE);
	for (unsigned int i = 0; i < MANY; i++)
		kmem_cache_free(s, objects[i]);
	/* 256 KiB, and what a chunk of which parts are in use may keep. */
	assert_true(library().free_bytes <= (size_t)512 << 10);
	kmem_cache_destroy(s);
}

/* A fault of an object can be found only as long as its slab exists. */
static void checked_slabs_stay(void **state)
{
	struct kmem_cache *s;
	char *object;

	(void)state;
	hook_leave_tools(); /* a sanitizer would end the program */
	s = make("checked", 64, SLAB_POISON);
	object = kmem_cache_alloc(s, GFP_KERNEL);
	kmem_cache_free(s, object);
	object[3] = 1;
	capture_begin(&captured);
	kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	assert_true(capture_end(&captured) > 0);
	assert_non_null(strstr(captured.text, "BUG checked: Poison overwritten"));
	capture_begin(&captured);
	kmem_cache_free(s, object);
	assert_true(capture_end(&captured) > 0);
	kmem_cache_destroy(s);
}

static void caches_are_shared(void **state)
{
	struct kmem_cache *one = kmem_cache_create("one", 72, NULL, 0);
	struct kmem_cache *two = kmem_cache_create("two", 72, NULL, SLAB_NO_SHEAVES);

	(void)state;
	assert_ptr_equal(one, two);
	kmem_cache_destroy(one);
	kmem_cache_destroy(two);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_cache_has_sheaves),
		cmocka_unit_test(slabs_are_small_and_go_back),
		cmocka_unit_test(free_memory_goes_back),
		cmocka_unit_test(caches_are_shared),
		cmocka_unit_test(checked_slabs_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
