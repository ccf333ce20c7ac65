/* SPDX-License-Identifier: MIT */
/*
 * Debug caches: each kind of misuse, and the exact text of its report.
 */
#include <sheaf/kmalloc.h>
#include <sheaf/rcu.h>
#include <sheaf/slab.h>
#include <stdint.h>
#include <string.h>

#include "kit/blocks.h"
#include "kit/by_hand.h"
#include "kit/debug_cache.h"
#include "kit/hidden.h"
#include "kit/hooks.h"

static void right_use_is_silent(void **state)
{
	struct kmem_cache *s = checked("silent", FZPU);
	void *objects[300];
	struct slab_sheaf *sheaf;

	(void)state;
	assert_int_equal(kmem_cache_size(s), 32);
	capture_begin(&captured);
	for (int round = 0; round < 3; round++) {
		assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, 300, objects), 300);
		for (int i = 0; i < 300; i++)
			memset(objects[i], i, 32);
		assert_int_equal(kmem_cache_verify(s), 0);
		kmem_cache_free_bulk(s, 200, objects);
		for (int i = 200; i < 250; i++)
			kmem_cache_free_nolock(s, objects[i]);
		for (int i = 250; i < 300; i++)
			kmem_cache_free_rcu(s, objects[i]);
		assert_int_equal(kmem_cache_verify(s), 0);
		kvfree_rcu_barrier();
		objects[0] = kmem_cache_alloc_nolock(s, GFP_NOWAIT);
		objects[1] = NULL;
		kmem_cache_free_bulk(s, 2, objects);
	}
	sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 10);
	objects[0] = kmem_cache_alloc_from_sheaf(s, GFP_KERNEL | __GFP_ZERO, sheaf);
	memset(objects[0], 1, 32);
	kmem_cache_free(s, objects[0]);
	assert_int_equal(kmem_cache_verify(s), 0);
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	kmem_cache_free(s, NULL);
	assert_int_equal(capture_end(&captured), 0);
	end(s);
}

static void double_free(void **state)
{
	struct kmem_cache *s = checked("double", FZPU);
	void *object = take(s);

	(void)state;
	kmem_cache_free(s, object);
	capture_begin(&captured);
	kmem_cache_free(s, object);
	reported_exactly(HEAD("double", "Object already free") SLAB
			 "Object PTR @cache=double size=32, free\n" ALLOCATED FREED LEFT("bb")
				 POISON_ROWS RIGHT32("bb") FOUND("kmem_cache_free(double") FIX(
					 "double", IGNORED)
					 TRY("double", "look for two owners that both free it"));
	end(s);
}

/* A write after the free without records of users: the report says how to get them. */
static void double_free_without_users(void **state)
{
	struct kmem_cache *s = checked("anonymous", SLAB_CONSISTENCY_CHECKS);
	void *object = take(s);

	(void)state;
	memset(object, 0x11, 32);
	kmem_cache_free(s, object);
	capture_begin(&captured);
	kmem_cache_free(s, object);
	reported_exactly(
		HEAD("anonymous", "Object already free") SLAB
		"Object PTR @cache=anonymous size=32, free\n"
		"Object      +0:" BYTES16(
			"11") "  ................\n"
			      "Object     +16:" BYTES16("11") "  ................\n" FOUND(
				      "kmem_cache_free(anonymous") FIX("anonymous", IGNORED)
				      TRY("anonymous",
					  "look for two owners that both free it; slab_debug "
					  "with U shows who allocated and freed it"));
	end(s);
}

static void interior_pointer(void **state)
{
	struct kmem_cache *s = checked("interior", FZPU);
	char *object = take(s);

	(void)state;
	capture_begin(&captured);
	kmem_cache_free(s, object + 4);
	reported_exactly(HEAD(
		"interior",
		"Invalid object pointer") "PTR is 4 bytes into an object\n" SLAB
					  "Object PTR @cache=interior size=32, in use\n" ALLOCATED
						  LEFT("cc") FRESH(" +0") FRESH("+16") RIGHT32("cc")
							  FOUND("kmem_cache_free(interior")
								  FIX("interior", IGNORED) TRY(
									  "interior",
									  "pass the address that "
									  "was allocated"));
	kmem_cache_free(s, object);
	end(s);
}

static void foreign_pointer(void **state)
{
	struct kmem_cache *s = checked("foreign", FZPU);
	int own;

	(void)state;
	capture_begin(&captured);
	kmem_cache_free(s, &own);
	reported_exactly(HEAD("foreign", "Invalid object pointer") "PTR is in no object\n" FOUND(
		"kmem_cache_free(foreign") FIX("foreign", IGNORED)
				 TRY("foreign", "free it with the allocator that "
						"it came from"));
	end(s);
}

/* An object that nobody has allocated yet. */
static void never_allocated(void **state)
{
	struct kmem_cache *s = checked("never", FZPU);
	char *object = take(s);
	size_t size = look(s).slab_size;
	bool is_first = (uintptr_t)object - slab_of(s, object) < size;

	(void)state;
	capture_begin(&captured);
	kmem_cache_free(s, is_first ? object + size : object - size);
	assert_true(capture_end(&captured) > 0);
	assert_non_null(strstr(captured.text, "Object already free"));
	kmem_cache_free(s, object);
	end(s);
}

static void wrong_cache(void **state)
{
	struct kmem_cache *s = checked("wrong", FZPU), *other = checked("right", FZPU);
	char *object = take(other);

	(void)state;
	capture_begin(&captured);
	kmem_cache_free(s, object);
	reported_exactly(HEAD(
		"wrong",
		"Wrong slab cache") "PTR belongs to right, not to wrong\n" SLAB
				    "Object PTR @cache=right size=32, in use\n" ALLOCATED LEFT("cc")
					    FRESH(" +0") FRESH("+16") RIGHT32("cc") FOUND(
						    "kmem_cache_free(wrong") FIX("wrong", IGNORED)
						    TRY("wrong",
							"free it to the cache that it came from, "
							"or with kfree()"));
	kmem_cache_free(other, object);
	end(other);
	end(s);
}

static void kmalloc_to_a_cache(void **state)
{
	struct kmem_cache *s = checked("typed", FZPU);
	void *block = kmalloc_in_slab(16), *large = kmalloc(100000, GFP_KERNEL);

	(void)state;
	capture_begin(&captured);
	kmem_cache_free(s, block);
	assert_true(capture_end(&captured) > 0);
	assert_non_null(strstr(captured.text, "belongs to kmalloc-"));
	assert_non_null(strstr(captured.text, "-16, not to typed"));
	capture_begin(&captured);
	kmem_cache_free(s, large);
	assert_true(capture_end(&captured) > 0);
	assert_non_null(strstr(captured.text, "BUG typed: Wrong slab cache"));
	kfree(block);
	kfree(large);
	/* As in the kernel, kfree() takes an object of any cache. */
	block = take(s);
	capture_begin(&captured);
	kfree(block);
	assert_int_equal(capture_end(&captured), 0);
	end(s);
}

static void write_after_free(void **state)
{
	struct kmem_cache *s = checked("stale", FZPU);
	char *object = take(s), *next;

	(void)state;
	kmem_cache_free(s, object);
	object[5] = 'x';
	capture_begin(&captured);
	next = take(s);
	reported_exactly(HEAD(
		"stale",
		"Poison overwritten") "PTR-PTR @offset=5..5. First byte 0x78 instead of 0x6b\n" SLAB
				      "Object PTR @cache=stale size=32, free\n" ALLOCATED FREED
					      LEFT("bb") "Object      +0: 6b 6b 6b 6b 6b>78" BYTES8(
						      "6b") " 6b 6b  kkkkkxkkkkkkkkkk\n"
							    "Object     +16:" BYTES8(
								    "6b") " 6b 6b 6b 6b 6b 6b 6b "
									  "a5  "
									  "kkkkkkkkkkkkkkk."
									  "\n" RIGHT32("bb") FOUND(
										  "kmem_cache_"
										  "alloc(stale")
										  FIX("stale",
										      KEPT_OUT)
											  TRY("stal"
											      "e",
											      WROTE_AFTER));
	/* The writer may write again, so no one gets the object. */
	assert_ptr_not_equal(next, object);
	capture_begin(&captured);
	kmem_cache_free(s, object);
	assert_true(capture_end(&captured) > 0);
	kmem_cache_free(s, next);
	end(s);
}

/* A call that may not wait does not look for another one. */
static void write_after_free_without_waiting(void **state)
{
	struct kmem_cache *s = checked("stale", FZPU);
	char *object = take(s);

	(void)state;
	kmem_cache_free(s, object);
	object[5] = 'x';
	capture_begin(&captured);
	assert_null(kmem_cache_alloc_nolock(s, 0));
	assert_true(capture_end_deferred(&captured) > 1);
	assert_non_null(strstr(captured.text, "Poison overwritten"));
	end(s);
}

/* Those of kmem_buckets know how many bytes were requested. */
static void overflow_in_a_set(void **state)
{
	kmem_buckets *set = kmem_buckets_create("set", SLAB_RED_ZONE, 0, 0, NULL);
	char *block = hidden(kmem_buckets_alloc(set, 100, GFP_KERNEL));

	(void)state;
	assert_non_null(block);
	block[100] = 1;
	capture_begin(&captured);
	kfree(block);
	assert_true(capture_end_deferred(&captured) > 1);
	assert_non_null(strstr(captured.text, "BUG set-112: "));
	kmem_buckets_destroy(set);
}

/* Verify finds it without an allocation, once: it restores the bytes. */
static void write_after_free_is_verified(void **state)
{
	struct kmem_cache *s = checked("verified", FZPU);
	char *object = take(s);

	(void)state;
	kmem_cache_free(s, object);
	object[31] = 0;
	capture_begin(&captured);
	assert_int_equal(kmem_cache_verify(s), 1);
	assert_true(capture_end(&captured) > 0);
	assert_non_null(strstr(captured.text, "BUG verified: End Poison overwritten"));
	assert_non_null(
		strstr(captured.text, "the poison was restored, and the object stays free"));
	end(s);
}

static void overflow(void **state)
{
	struct kmem_cache *s = checked("over", FZPU);
	char *object = take(s);

	(void)state;
	memset(object, 'A', 34);
	capture_begin(&captured);
	kmem_cache_free(s, object);
	reported_exactly(HEAD(
		"over",
		"Right Redzone overwritten") "PTR-PTR @offset=32..33. First byte 0x41 instead of "
					     "0xcc\n" SLAB "Object PTR @cache=over size=32, being "
					     "freed\n" ALLOCATED "Object      +0:" BYTES16(
						     "41") "  AAAAAAAAAAAAAAAA\n"
							   "Object     +16:" BYTES16(
								   "41") "  AAAAAAAAAAAAAAAA\n"
									 "Redzone    +32:>41>41 cc "
									 "cc cc cc cc cc" GAP8
									 "  AA......\n" FOUND(
										 "kmem_cache_free("
										 "over")
										 FIX("over",
										     RESTORED)
											 TRY("over",
											     "somet"
											     "hing "
											     "wrote"
											     " past"
											     " the "
											     "end "
											     "of "
											     "this "
											     "objec"
											     "t: "
											     "look "
											     "for "
											     "an "
											     "index"
											     " or "
											     "a "
											     "lengt"
											     "h "
											     "that "
											     "is "
											     "too "
											     "larg"
											     "e"));
	end(s);
}

static void underflow(void **state)
{
	struct kmem_cache *s = checked("under", FZPU);
	char *object = take(s);

	(void)state;
	object[-2] = 1;
	capture_begin(&captured);
	kmem_cache_free(s, object);
	reported_exactly(HEAD(
		"under",
		"Left Redzone overwritten") "PTR-PTR @offset=-2..-2. First byte 0x01 instead of "
					    "0xcc\n" SLAB "Object PTR @cache=under size=32, being "
					    "freed\n" ALLOCATED "Redzone    -16:" BYTES8(
						    "cc") " cc cc cc cc cc cc>01 cc  "
							  "................\n" FRESH(" +0") FRESH(
								  "+16") RIGHT32("cc") FOUND("kmem_"
											     "cache"
											     "_free"
											     "(unde"
											     "r")
								  FIX("under", RESTORED) TRY(
									  "under", WROTE_BEFORE));
	end(s);
}

/* A red zone that was free when it was written to. */
static void overflow_into_a_free_object(void **state)
{
	struct kmem_cache *s = checked("beside", FZPU);
	char *object = take(s);

	(void)state;
	kmem_cache_free(s, object);
	object[32] = 1;
	capture_begin(&captured);
	kmem_cache_free(s, take(s));
	assert_true(capture_end(&captured) > 0);
	assert_non_null(strstr(captured.text, "@offset=32..32. First byte 0x01 instead of 0xbb"));
	end(s);
}

static void metadata_overwritten(void **state)
{
	struct kmem_cache *s = checked("meta", FZPU);
	char *object = take(s);

	(void)state;
	memset(object - 24, 0, 8);
	capture_begin(&captured);
	kmem_cache_free(s, object);
	assert_true(capture_end(&captured) > 0);
	assert_non_null(strstr(captured.text, "BUG meta: Object metadata overwritten"));
	/* The slab's bit said that it was in use: it was freed. */
	capture_begin(&captured);
	kmem_cache_free(s, object);
	assert_true(capture_end(&captured) > 0);
	assert_non_null(strstr(captured.text, "Object already free"));
	memset(object - 24, 0, 8);
	capture_begin(&captured);
	kmem_cache_free(s, object);
	assert_true(capture_end(&captured) > 0);
	assert_non_null(strstr(captured.text, "Object metadata overwritten"));
	end(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(right_use_is_silent),
		cmocka_unit_test(double_free),
		cmocka_unit_test(double_free_without_users),
		cmocka_unit_test(interior_pointer),
		cmocka_unit_test(foreign_pointer),
		cmocka_unit_test(never_allocated),
		cmocka_unit_test(wrong_cache),
		cmocka_unit_test(kmalloc_to_a_cache),
		cmocka_unit_test(write_after_free),
		cmocka_unit_test(write_after_free_without_waiting),
		cmocka_unit_test(overflow_in_a_set),
		cmocka_unit_test(write_after_free_is_verified),
		cmocka_unit_test(overflow),
		cmocka_unit_test(underflow),
		cmocka_unit_test(overflow_into_a_free_object),
		cmocka_unit_test(metadata_overwritten),
	};

	sheaf_rcu_register(&by_hand_ops);
	/* A sanitizer would end the program at the first misuse. */
	hook_leave_tools();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
