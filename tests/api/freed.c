/* SPDX-License-Identifier: MIT */
/*
 * Calls that get a block which was freed before, and do not free it: they report that and fail,
 * where the library can know. And sensitive frees: they clear what they free, and nothing else.
 *
 * The objects are of a cache without sheaves, whose slab knows what is free; where objects are
 * checked, hardened or guarded, the cache has sheaves like others.
 */
#include <string.h>

#include <sheaf/debug.h>
#include <sheaf/kmalloc.h>
#include <sheaf/rcu.h>

#include "kit/by_hand.h"
#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/guarded.h"
#include "kit/hooks.h"
#include "kit/options.h"
#include "kit/unit.h"

enum {
	SIZE = 104,
	HALF = SIZE / 2 - 8
};

static struct capture captured;
static struct kmem_cache *s;
static void *neighbour; /* its slab stays */

/* Does the library know of each object that it is free, or waits? */
static bool all_known(void)
{
	return checks_double() || has_debug_letter('F') || has_debug_letter('G') ||
	       has_debug_letter('S');
}

static int set_up(void **state)
{
	(void)state;
	s = make("mine", SIZE, all_known() ? 0 : SLAB_NO_SHEAVES);
	neighbour = kmem_cache_alloc(s, GFP_KERNEL);
	assert_non_null(neighbour);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	kmem_cache_free(s, neighbour);
	assert_int_equal(kmem_cache_verify(s), 0);
	assert_int_equal(look(s).objects_in_use, 0);
	kmem_cache_destroy(s);
	return 0;
}

static char *new_block(void)
{
	char *block = kmem_cache_alloc(s, GFP_KERNEL);

	assert_non_null(block);
	memset(block, 0x11, SIZE);
	return block;
}

/* --- calls that fail: each returns whether it did --------------------------------------------- */

static bool ksize_fails(void *block)
{
	return !ksize(block);
}

static bool stay_fails(void *block)
{
	return !krealloc(block, SIZE - 8, GFP_KERNEL);
}

static bool half_fails(void *block)
{
	return !krealloc(block, HALF, GFP_KERNEL);
}

static bool grow_fails(void *block)
{
	return !krealloc(block, 4 * SIZE, GFP_KERNEL | __GFP_ZERO);
}

static bool kvrealloc_fails(void *block)
{
	return !kvrealloc(block, SIZE - 8, GFP_KERNEL);
}

static bool sensitive_fails(void *block)
{
	kfree_sensitive(block);
	return true;
}

static bool kv_sensitive_fails(void *block)
{
	kvfree_sensitive(block, SIZE);
	return true;
}

static const struct {
	bool (*fails)(void *block);
	const char *name;
} calls[] = {
	{stay_fails, "krealloc("},
	{half_fails, "krealloc("},
	{grow_fails, "krealloc("},
	{kvrealloc_fails, "kvrealloc("},
	{sensitive_fails, "kfree_sensitive("},
	{kv_sensitive_fails, "kvfree_sensitive("},
	{ksize_fails, "ksize("},
};

#define NR_CALLS (sizeof(calls) / sizeof(calls[0]))

/* That call reports this, and fails. */
static void fails(unsigned int call, void *block)
{
	capture_begin(&captured);
	assert_true(calls[call].fails(block));
	assert_true(capture_end(&captured) >= 1);
	assert_non_null(strstr(captured.text, calls[call].name));
	assert_null(strstr(captured.text, "overwritten"));
}

/* The cache's checks would find a byte that changed; a reader sees what it saw. */
static void a_freed_block_is_not_used(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < NR_CALLS; i++) {
		char *block = new_block();

		kmem_cache_free(s, block);
		fails(i, block);
		if (!is_readable((uintptr_t)block))
			continue;
		assert_int_equal(kmem_cache_verify(s), 0);
		if (!hook_has_tools() && !has_debug_letter('P') && !clears_on_free())
			assert_int_equal(block[SIZE - 16], 0x11);
	}
}

static void an_object_that_was_never_allocated_is_not_used(void **state)
{
	size_t size = look(s).slab_size, offset = (uintptr_t)neighbour - slab_of(s, neighbour);
	/* The first one of the slab, or the second. */
	char *other = (char *)neighbour + (offset < size ? size : -(offset / size * size));

	(void)state;
	if (all_known()) {
		print_message("skipped: here the cache has sheaves, or no slabs\n");
		skip();
	}
	for (unsigned int i = 0; i < NR_CALLS; i++) {
		fails(i, other);
		assert_non_null(strstr(captured.text, "the object is not in use"));
	}
}

/* Only readers may look at it. */
static void a_retired_block_is_not_used(void **state)
{
	(void)state;
	if (!all_known()) {
		print_message("nothing tells a retired object from one in use here\n");
		skip();
	}
	for (unsigned int i = 0; i < NR_CALLS; i++) {
		char *block = new_block();

		kmem_cache_free_rcu(s, block);
		if (calls[i].fails == ksize_fails)
			assert_int_equal(ksize(block), SIZE);
		else
			fails(i, block);
		assert_int_equal(block[0], 0x11);
		assert_int_equal(block[SIZE - 1], 0x11);
		by_hand_pass();
		kvfree_rcu_barrier_on_cache(s);
	}
}

static void construct(void *object)
{
	memset(object, 'C', SIZE);
}

/* The next owner gets it in the constructed state. */
static void a_constructed_object_stays_as_it_is(void **state)
{
	struct kmem_cache_args args = {.ctor = construct};
	struct kmem_cache *made =
		kmem_cache_create("made", SIZE, &args, all_known() ? 0 : SLAB_NO_SHEAVES);
	void *stays = kmem_cache_alloc(made, GFP_KERNEL);
	char *object = kmem_cache_alloc(made, GFP_KERNEL);

	(void)state;
	kmem_cache_free(made, object);
	fails(4, object);
	object = kmem_cache_alloc(made, GFP_KERNEL);
	for (int i = 0; i < SIZE; i++)
		assert_int_equal(object[i], 'C');
	kmem_cache_free(made, object);
	kmem_cache_free(made, stays);
	kmem_cache_destroy(made);
}

/* There is no object behind the last one of a slab, though the slab is longer. */
static void no_object_is_behind_the_last(void **state)
{
	struct kmem_cache *few = make("few", 3000, SLAB_NO_USER_FLAGS | SLAB_NO_SHEAVES);
	char *objects[64], *last = NULL;

	(void)state;
	for (int i = 0; i < 64; i++) {
		objects[i] = kmem_cache_alloc(few, GFP_KERNEL);
		if (slab_of(few, objects[i]) == slab_of(few, objects[0]) && objects[i] > last)
			last = objects[i];
	}
	last += look(few).slab_size;
	if (slab_of(few, last) == slab_of(few, objects[0])) {
		capture_begin(&captured);
		assert_int_equal(ksize(last), 0);
		assert_null(krealloc(last, 8, GFP_KERNEL));
		assert_int_equal(capture_end(&captured), 2);
		assert_non_null(strstr(captured.text, "not in a block that is in use"));
	}
	for (int i = 0; i < 64; i++)
		kmem_cache_free(few, objects[i]);
	kmem_cache_destroy(few);
}

/* --- sensitive frees -------------------------------------------------------------------------- */

static void what_is_freed_is_clear(void **state)
{
	char *block = new_block(), *again;

	(void)state;
	kfree_sensitive(block);
	if (is_readable((uintptr_t)block) && !hook_has_tools())
		for (int i = 0; i < SIZE; i++)
			assert_int_not_equal(block[i], 0x11);
	again = new_block();
	kvfree_sensitive(again, 8);
	if (is_readable((uintptr_t)again) && !hook_has_tools())
		assert_int_not_equal(again[7], 0x11);
	assert_int_equal(look(s).objects_in_use, 1);
	/* Both were ordinary frees. */
	capture_begin(&captured);
	for (int i = 0; i < 100; i++)
		kfree_sensitive(new_block());
	assert_int_equal(capture_end(&captured), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define EACH(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		EACH(a_freed_block_is_not_used),
		EACH(an_object_that_was_never_allocated_is_not_used),
		EACH(a_retired_block_is_not_used),
		EACH(a_constructed_object_stays_as_it_is),
		EACH(no_object_is_behind_the_last),
		EACH(what_is_freed_is_clear),
	};

	if (sheaf_rcu_register(&by_hand_ops))
		return 1;
	/* A sanitizer would end the program at the first misuse. */
	hook_leave_tools();
	return cmocka_run_group_tests_name("freed", tests, NULL, NULL);
}
