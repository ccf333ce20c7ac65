/* SPDX-License-Identifier: MIT */
/* Caches of objects above 1 MiB, which have no sheaves: each call, with any options. */
#include <errno.h>
#include <sheaf/debug.h>
#include <sheaf/group.h>
#include <sheaf/kmalloc.h>
#include <sheaf/rcu.h>
#include <sheaf/trim.h>
#include <string.h>

#include "kit/by_hand.h"
#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/options.h"
#include "kit/unit.h"

#define MiB ((size_t)1 << 20)

enum {
	OBJECTS = 5
};

static const size_t sizes[] = {MiB + 1, 3 * MiB / 2, 2 * MiB, 2 * MiB + 1, 3 * MiB + 8, 4 * MiB};
static struct capture captured;
static char *p[OBJECTS];

/* A byte in each page of 4 KiB is the object's, and the last one. */
static void stamp(char *object, size_t size, char value)
{
	for (size_t at = 0; at < size; at += 4096)
		object[at] = value;
	object[size - 1] = value;
}

static bool is_stamped(const char *object, size_t size, char value)
{
	for (size_t at = 0; at < size; at += 4096)
		if (object[at] != value)
			return false;
	return object[size - 1] == value;
}

static void all_is_there(struct kmem_cache *s)
{
	assert_int_equal(kmem_cache_verify(s), 0);
	assert_int_equal(kmem_cache_shrink(s), 0);
	kmem_cache_destroy(s);
}

static void each_size(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct kmem_cache *s = make("large", sizes[i], 0);

		assert_int_equal(kmem_cache_size(s), sizes[i]);
		assert_int_equal(look(s).sheaf_capacity, 0);
		for (char n = 0; n < OBJECTS; n++) {
			assert_non_null(p[(int)n] = kmem_cache_zalloc(s, GFP_KERNEL));
			assert_true(is_stamped(p[(int)n], sizes[i], 0));
			stamp(p[(int)n], sizes[i], n + 1);
		}
		assert_int_equal(look(s).objects_in_use, OBJECTS);
		for (char n = 0; n < OBJECTS; n++)
			assert_true(is_stamped(p[(int)n], sizes[i], n + 1));
		assert_true(ksize(p[0]) >= sizes[i]);
		assert_true(sheaf_owns(p[1] + sizes[i] - 1));
		for (int n = 0; n < OBJECTS; n++)
			if (n % 2)
				kfree(p[n]);
			else
				kmem_cache_free(s, p[n]);
		assert_int_equal(look(s).objects_in_use, 0);
		all_is_there(s);
	}
}

static void arrays_and_sheaves(void **state)
{
	struct kmem_cache *s = make("arrays", 3 * MiB, 0);
	struct slab_sheaf *sheaf;

	(void)state;
	assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, OBJECTS, (void **)p), OBJECTS);
	for (int n = 0; n < OBJECTS; n++)
		stamp(p[n], 3 * MiB, (char)n);
	kmem_cache_free_bulk(s, OBJECTS, (void **)p);
	sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 2);
	assert_non_null(sheaf);
	p[0] = kmem_cache_alloc_from_sheaf(s, GFP_NOWAIT, sheaf);
	assert_non_null(p[0]);
	stamp(p[0], 3 * MiB, 1);
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	kmem_cache_free_bulk(NULL, 1, (void **)p);
	p[0] = kmem_cache_alloc_nolock(s, 0);
	if (p[0])
		kmem_cache_free_nolock(s, p[0]);
	assert_int_equal(kmem_cache_set_sheaf_capacity(s, 4), -ENOTSUP);
	all_is_there(s);
}

static unsigned int constructed;

static void construct(void *object)
{
	constructed++;
	stamp(object, 2 * MiB + 8, 7);
}

static void a_constructor_runs_once(void **state)
{
	struct kmem_cache_args args = {.ctor = construct};
	struct kmem_cache *s = kmem_cache_create("made", 2 * MiB + 8, &args, 0);
	unsigned int before;

	(void)state;
	assert_non_null(s);
	for (int n = 0; n < OBJECTS; n++) {
		assert_non_null(p[n] = kmem_cache_alloc(s, GFP_KERNEL));
		assert_true(is_stamped(p[n], 2 * MiB + 8, 7));
	}
	assert_true(constructed >= OBJECTS);
	kmem_cache_free(s, p[0]);
	before = constructed;
	assert_non_null(p[0] = kmem_cache_alloc(s, GFP_KERNEL));
	assert_true(constructed == before || is_stamped(p[0], 2 * MiB + 8, 7));
	for (int n = 0; n < OBJECTS; n++)
		kmem_cache_free(s, p[n]);
	all_is_there(s);
}

static void retired_ones_wait(void **state)
{
	static const slab_flags_t flags[] = {0, SLAB_TYPESAFE_BY_RCU};
	struct kmem_cache_args args = {.rcu = &by_hand_ops};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct kmem_cache *s = kmem_cache_create("retired", 3 * MiB, &args, flags[i]);

		assert_non_null(s);
		for (int n = 0; n < OBJECTS; n++) {
			assert_non_null(p[n] = kmem_cache_alloc(s, GFP_KERNEL));
			stamp(p[n], 3 * MiB, (char)n);
		}
		for (int n = 0; n < OBJECTS; n++)
			kmem_cache_free_rcu(s, p[n]);
		for (int n = 0; n < OBJECTS; n++)
			assert_true(is_stamped(p[n], 3 * MiB, (char)n));
		kvfree_rcu_barrier_on_cache(s);
		assert_int_equal(look(s).objects_in_use, 0);
		assert_int_equal(kmem_cache_verify(s), 0);
		kmem_cache_destroy(s);
	}
}

static void misuse_is_reported(void **state)
{
	struct kmem_cache *s = make("misused", 3 * MiB, no_samples());
	char *object = kmem_cache_alloc(s, GFP_KERNEL);

	(void)state;
	assert_non_null(object);
	stamp(object, 3 * MiB, 1);
	capture_begin(&captured);
	kfree(object + 2 * MiB + 8);
	assert_true(capture_end_deferred(&captured) > 0);
	assert_true(is_stamped(object, 3 * MiB, 1));
	kmem_cache_free(s, object);
	capture_begin(&captured);
	kmem_cache_free(s, object);
	assert_true(capture_end_deferred(&captured) > 0);
	all_is_there(s);
	capture_begin(&captured);
	assert_null(kmem_cache_create("larger", 4 * MiB + 1, NULL, 0));
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "use 1 to 4194304 bytes"));
}

/* Destroyed while objects are in use: they stay usable, and are taken back. */
static void left_behind(void **state)
{
	struct kmem_cache *s = make("left", 2 * MiB + 1, no_samples());
	char *object = kmem_cache_alloc(s, GFP_KERNEL);

	(void)state;
	assert_non_null(object);
	capture_begin(&captured);
	kmem_cache_destroy(s);
	capture_end(&captured);
	assert_non_null(strstr(captured.text, "1 object still in use"));
	stamp(object, 2 * MiB + 1, 1);
	kfree(object);
}

static void limits(void **state)
{
	struct kmem_cache_args args = {.limit = 17 * MiB};
	struct kmem_cache *s = kmem_cache_create("limited", 3 * MiB, &args, 0);
	int n = 0;

	(void)state;
	assert_non_null(s);
	capture_begin(&captured);
	while (n < OBJECTS && (p[n] = kmem_cache_alloc(s, GFP_NOWAIT)) != NULL)
		n++;
	capture_end(&captured);
	assert_true(n >= 2 && (n < OBJECTS || has_debug_letter('G')));
	while (n)
		kmem_cache_free(s, p[--n]);
	all_is_there(s);
}

static void groups_are_charged(void **state)
{
	struct kmem_group *group = kmem_group_create("payer", NULL, NULL);
	struct kmem_cache_args args = {.group = group};
	struct kmem_cache *s = kmem_cache_create("charged", 3 * MiB, &args, 0);
	struct kmem_group_stats stats;

	(void)state;
	assert_non_null(group);
	assert_non_null(s);
	assert_non_null(p[0] = kmem_cache_alloc(s, GFP_KERNEL));
	assert_ptr_equal(kmem_group_of(p[0]), group);
	assert_int_equal(kmem_group_stats(group, &stats), 0);
	assert_true(stats.bytes >= 3 * MiB);
	kmem_cache_free(s, p[0]);
	assert_int_equal(kmem_group_verify(), 0);
	all_is_there(s);
	kmem_group_put(group);
}

static void memory_returns(void **state)
{
	struct kmem_cache *s = make("returned", 4 * MiB, no_samples());
	uint64_t before;

	(void)state;
	sheaf_trim(0);
	before = library().held_bytes;
	for (int n = 0; n < OBJECTS; n++) {
		assert_non_null(p[n] = kmem_cache_alloc(s, GFP_KERNEL));
		stamp(p[n], 4 * MiB, 1);
	}
	for (int n = 0; n < OBJECTS; n++)
		kmem_cache_free(s, p[n]);
	all_is_there(s);
	sheaf_trim(0);
	assert_true(library().held_bytes < before + MiB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_size),
		cmocka_unit_test(arrays_and_sheaves),
		cmocka_unit_test(a_constructor_runs_once),
		cmocka_unit_test(retired_ones_wait),
		cmocka_unit_test(misuse_is_reported),
		cmocka_unit_test(left_behind),
		cmocka_unit_test(limits),
		cmocka_unit_test(groups_are_charged),
		cmocka_unit_test(memory_returns),
	};

	return cmocka_run_group_tests_name("large-objects", tests, NULL, NULL);
}
