/* SPDX-License-Identifier: MIT */
/*
 * Debug caches: each kind of misuse, and the exact text of its report.
 */
#include <pthread.h>
#include <sched.h>
#include <sheaf/kmalloc.h>
#include <sheaf/mempool.h>
#include <sheaf/rcu.h>
#include <sheaf/slab.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cache/cache.h"
#include "debug/object.h"
#include "internal/kit/blocks.h"
#include "internal/kit/reports.h"
#include "kit/by_hand.h"
#include "kit/cache.h"
#include "kit/check.h"
#include "kit/masked.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "os/machine.h"
#include "os/options/options.h"
#include "os/report/report.h"

#define FZPU (SLAB_CONSISTENCY_CHECKS | SLAB_RED_ZONE | SLAB_POISON | SLAB_STORE_USER)

#define HEAD(cache, what)                                                                          \
	"=============================================================================\n"          \
	"libsheaf: BUG " cache ": " what "\n"                                                      \
	"-----------------------------------------------------------------------------\n"
#define SLAB		"Slab PTR objects=N used=N\n"
#define ALLOCATED	"Allocated N ms ago by thread N on CPU N\n"
#define FREED		"Freed N ms ago by thread N on CPU N\n"
#define FOUND(by)	"Found by " by ", PTR) in thread N on CPU N\n"
#define FIX(cache, fix) "FIX " cache ": " fix "\n"
#define TRY(cache, try) "TRY " cache ": " try "\n"
#define IGNORED		"the call was ignored"
#define RESTORED	"the red zone was restored"
#define WROTE_AFTER                                                                                \
	"something wrote to the object after it was freed: look for a pointer to it that is used " \
	"after the free"
#define WROTE_BEFORE                                                                               \
	"something wrote in front of this object, or past the end of the one before it: look for " \
	"a negative index, or a pointer moved back too far"
#define KEPT_OUT                                                                                   \
	"the poison was restored, and the object will not be used again: the code that wrote to "  \
	"it may do so again"

/* Rows of a dump. */
#define BYTES8(b)  " " b " " b " " b " " b " " b " " b " " b " " b
#define BYTES16(b) BYTES8(b) BYTES8(b)
#define GAP8	   "                        "
#define LEFT(b)	   "Redzone    -16:" BYTES16(b) "  ................\n"
#define RIGHT32(b) "Redzone    +32:" BYTES8(b) GAP8 "  ........\n"
#define POISON_ROWS                                                                                \
	"Object      +0:" BYTES16(                                                                 \
		"6b") "  kkkkkkkkkkkkkkkk\n"                                                       \
		      "Object     +16:" BYTES8(                                                    \
			      "6b") " 6b 6b 6b 6b 6b 6b 6b a5  kkkkkkkkkkkkkkk.\n"
#define FRESH(offset) "Object     " offset ":" BYTES16("5a") "  ZZZZZZZZZZZZZZZZ\n"

static struct told told;
static struct masked masked;

/* A cache with these letters, whatever slab_debug says. */
static struct kmem_cache *checked(const char *name, slab_flags_t letters)
{
	return make(name, 32, letters | SLAB_NO_USER_FLAGS);
}

static char *take(struct kmem_cache *s)
{
	char *object = kmem_cache_alloc(s, GFP_KERNEL);

	assert_non_null(object);
	return object;
}

static void told_to_the_letter(const char *expected)
{
	assert_true(told_end(&told) >= 0);
	assert_string_equal(mask(&masked, told.text), expected);
}

/* Nothing more is wrong, and nothing is left. */
static void end(struct kmem_cache *s)
{
	told_begin(&told);
	assert_int_equal(kmem_cache_verify(s), 0);
	kmem_cache_destroy(s);
	assert_int_equal(told_end(&told), 0);
}

static void right_use_is_silent(void **state)
{
	struct kmem_cache *s = checked("silent", FZPU);
	void *objects[300];
	struct slab_sheaf *sheaf;

	(void)state;
	assert_int_equal(kmem_cache_size(s), 32);
	told_begin(&told);
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
		kmem_cache_free(s, objects[0]);
	}
	sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 10);
	objects[0] = kmem_cache_alloc_from_sheaf(s, GFP_KERNEL | __GFP_ZERO, sheaf);
	memset(objects[0], 1, 32);
	kmem_cache_free(s, objects[0]);
	assert_int_equal(kmem_cache_verify(s), 0);
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	kmem_cache_free(s, NULL);
	assert_int_equal(told_end(&told), 0);
	end(s);
}

static void double_free(void **state)
{
	struct kmem_cache *s = checked("double", FZPU);
	void *object = take(s);

	(void)state;
	kmem_cache_free(s, object);
	told_begin(&told);
	kmem_cache_free(s, object);
	told_to_the_letter(HEAD("double", "Object already free") SLAB
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
	told_begin(&told);
	kmem_cache_free(s, object);
	told_to_the_letter(
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
	told_begin(&told);
	kmem_cache_free(s, object + 4);
	told_to_the_letter(HEAD(
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
	told_begin(&told);
	kmem_cache_free(s, &own);
	told_to_the_letter(HEAD("foreign", "Invalid object pointer") "PTR is in no object\n" FOUND(
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
	const struct slab_cache *slabs = &s->sheaf.slab;
	bool is_first = slab_index(slabs, page_slab(object), object) == 0;

	(void)state;
	told_begin(&told);
	kmem_cache_free(s, is_first ? object + slabs->size : object - slabs->size);
	assert_true(told_end(&told) > 0);
	assert_non_null(strstr(told.text, "Object already free"));
	kmem_cache_free(s, object);
	end(s);
}

static void wrong_cache(void **state)
{
	struct kmem_cache *s = checked("wrong", FZPU), *other = checked("right", FZPU);
	char *object = take(other);

	(void)state;
	told_begin(&told);
	kmem_cache_free(s, object);
	told_to_the_letter(HEAD(
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
	char text[64];

	(void)state;
	snprintf(text, sizeof(text), "belongs to %s, not to typed", cache_of(block)->name);
	told_begin(&told);
	kmem_cache_free(s, block);
	assert_true(told_end(&told) > 0);
	assert_non_null(strstr(told.text, text));
	told_begin(&told);
	kmem_cache_free(s, large);
	assert_true(told_end(&told) > 0);
	assert_non_null(strstr(told.text, "BUG typed: Wrong slab cache"));
	kfree(block);
	kfree(large);
	/* As in the kernel, kfree() takes an object of any cache. */
	block = take(s);
	told_begin(&told);
	kfree(block);
	assert_int_equal(told_end(&told), 0);
	end(s);
}

static void write_after_free(void **state)
{
	struct kmem_cache *s = checked("stale", FZPU);
	char *object = take(s), *next;

	(void)state;
	kmem_cache_free(s, object);
	object[5] = 'x';
	told_begin(&told);
	next = take(s);
	told_to_the_letter(HEAD(
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
	told_begin(&told);
	kmem_cache_free(s, object);
	assert_true(told_end(&told) > 0);
	kmem_cache_free(s, next);
	end(s);
}

/* Verify finds it without an allocation, once: it restores the bytes. */
static void write_after_free_is_verified(void **state)
{
	struct kmem_cache *s = checked("verified", FZPU);
	char *object = take(s);

	(void)state;
	kmem_cache_free(s, object);
	object[31] = 0;
	told_begin(&told);
	assert_int_equal(kmem_cache_verify(s), 1);
	assert_true(told_end(&told) > 0);
	assert_non_null(strstr(told.text, "BUG verified: End Poison overwritten"));
	assert_non_null(strstr(told.text, "the poison was restored, and the object stays free"));
	end(s);
}

static void overflow(void **state)
{
	struct kmem_cache *s = checked("over", FZPU);
	char *object = take(s);

	(void)state;
	memset(object, 'A', 34);
	told_begin(&told);
	kmem_cache_free(s, object);
	told_to_the_letter(HEAD(
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
	told_begin(&told);
	kmem_cache_free(s, object);
	told_to_the_letter(HEAD(
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
	told_begin(&told);
	kmem_cache_free(s, take(s));
	assert_true(told_end(&told) > 0);
	assert_non_null(strstr(told.text, "@offset=32..32. First byte 0x01 instead of 0xbb"));
	end(s);
}

static void metadata_overwritten(void **state)
{
	struct kmem_cache *s = checked("meta", FZPU);
	char *object = take(s);

	(void)state;
	memset(object - 24, 0, 8);
	told_begin(&told);
	kmem_cache_free(s, object);
	assert_true(told_end(&told) > 0);
	assert_non_null(strstr(told.text, "BUG meta: Object metadata overwritten"));
	/* The slab's bit said that it was in use: it was freed. */
	told_begin(&told);
	kmem_cache_free(s, object);
	assert_true(told_end(&told) > 0);
	assert_non_null(strstr(told.text, "Object already free"));
	memset(object - 24, 0, 8);
	told_begin(&told);
	kmem_cache_free(s, object);
	assert_true(told_end(&told) > 0);
	assert_non_null(strstr(told.text, "Object metadata overwritten"));
	end(s);
}

static void waits_for_a_grace_period(void **state)
{
	struct kmem_cache *s = checked("retired", FZPU);
	char *object = take(s);

	(void)state;
	memset(object, 'r', 32);
	kmem_cache_free_rcu(s, object);
	/* Readers may still look at it. */
	assert_int_equal(object[0], 'r');
	told_begin(&told);
	kmem_cache_free(s, object);
	told_to_the_letter(
		HEAD("retired", "Object waits for a grace period") SLAB
		"Object PTR @cache=retired size=32, waits for a grace period\n" ALLOCATED FREED
			LEFT("cc") "Object      +0:" BYTES16(
				"72") "  rrrrrrrrrrrrrrrr\n"
				      "Object     +16:" BYTES16(
					      "72") "  rrrrrrrrrrrrrrrr\n" RIGHT32("cc")
					      FOUND("kmem_cache_free(retired")
						      FIX("retired", IGNORED)
							      TRY("retired",
								  "kfree_rcu() already frees it: "
								  "remove one of the two "
								  "calls"));
	told_begin(&told);
	kfree_rcu_mightsleep(object);
	assert_true(told_end(&told) > 0);
	assert_non_null(strstr(told.text, "Object waits for a grace period"));
	kvfree_rcu_barrier();
	assert_int_equal(object[0], 0x6b);
	end(s);
}

/* What a reader or an owner writes meanwhile is allowed; what it writes beyond is found after
 * the grace period (SLAB_DEBUG-D6). */
static void checked_after_the_grace_period(void **state)
{
	struct kmem_cache *s = checked("late", FZPU);
	char *object = take(s);

	(void)state;
	kmem_cache_free_rcu(s, object);
	memset(object, 1, 33);
	told_begin(&told);
	kvfree_rcu_barrier();
	told_end_kept(&told);
	assert_non_null(strstr(told.text, "BUG late: Right Redzone overwritten"));
	assert_non_null(strstr(told.text, "Found by kfree_rcu(late, "));
	end(s);
}

/* Memory that was never written to is recognised. */
static void uninitialised_use(void **state)
{
	struct kmem_cache *s = checked("fresh", FZPU);
	unsigned char *object = (unsigned char *)take(s);

	(void)state;
	for (int i = 0; i < 32; i++)
		assert_int_equal(object[i], 0x5a);
	kmem_cache_free(s, object);
	object = kmem_cache_zalloc(s, GFP_KERNEL);
	for (int i = 0; i < 32; i++)
		assert_int_equal(object[i], 0);
	kmem_cache_free(s, object);
	end(s);
}

static unsigned int constructed;

static void construct(void *object)
{
	memset(object, 0xc0, 32);
	constructed++;
}

/* SLAB_DEBUG-D5 */
static void a_constructed_object_keeps_its_state(void **state)
{
	struct kmem_cache *s =
		kmem_cache_create("constructed", 32, 8, FZPU | SLAB_NO_USER_FLAGS, construct);
	unsigned char *object = (unsigned char *)take(s);
	unsigned int before = constructed;

	(void)state;
	assert_int_equal(object[31], 0xc0);
	object[31] = 7;
	kmem_cache_free(s, object);
	assert_int_equal(object[31], 7);
	object = (unsigned char *)take(s);
	assert_int_equal(object[31], 7);
	assert_int_equal(constructed, before);
	object[32] = 0;
	told_begin(&told);
	kmem_cache_free(s, object);
	assert_true(told_end(&told) > 0);
	end(s);
}

/* Readers may look at free objects of such a cache (SLAB_DEBUG-D5). */
static void a_type_stable_object_is_not_written_to(void **state)
{
	struct kmem_cache *s = checked("stable", FZPU | SLAB_TYPESAFE_BY_RCU);
	char *object = take(s);

	(void)state;
	memset(object, 's', 32);
	kmem_cache_free(s, object);
	assert_int_equal(object[0], 's');
	object[0] = 't';
	told_begin(&told);
	object = take(s);
	assert_int_equal(told_end(&told), 0);
	assert_int_equal(object[0], 't');
	kmem_cache_free(s, object);
	end(s);
}

static void leaks_by_stack(void **state)
{
	struct kmem_cache *s = checked("leaky", FZPU);
	void *objects[4];

	(void)state;
	/* One call: compilers may make several of one in a loop. */
	CHECK(kmem_cache_alloc_bulk(s, GFP_KERNEL, 3, objects) == 3);
	objects[3] = take(s);
	told_begin(&told);
	kmem_cache_destroy(s);
	assert_true(told_end(&told) > 0);
	mask(&masked, told.text);
	assert_non_null(strstr(masked.text,
			       "libsheaf: LEAK leaky: 4 objects of 32 bytes in "
			       "use when it is destroyed, by the stack that allocated them:\n"
			       "3 objects of 96 bytes, such as PTR, allocated "));
	assert_non_null(strstr(masked.text, " ms ago by thread N\n"
					    "1 object of 32 bytes, such as PTR, allocated N ms ago "
					    "by thread N\n"));
	for (int i = 0; i < 4; i++)
		kmem_cache_free(s, objects[i]);
}

static void traces(void **state)
{
	struct kmem_cache *s = checked("traced", SLAB_TRACE);
	void *object;

	(void)state;
	told_begin(&told);
	object = take(s);
	kmem_cache_free(s, object);
	kmem_cache_free_rcu(s, take(s));
	assert_int_equal(told_end(&told), 4);
	assert_memory_equal(told.text, "libsheaf: TRACE traced alloc 0x", 31);
	assert_non_null(strstr(told.text, "libsheaf: TRACE traced free 0x"));
	assert_non_null(strstr(told.text, "libsheaf: TRACE traced retire 0x"));
	told_begin(&told);
	kvfree_rcu_barrier();
	assert_int_equal(told_end_kept(&told), 1);
	end(s);
}

static unsigned int count_failures(struct kmem_cache *s, unsigned int n, gfp_t flags)
{
	unsigned int failed = 0;

	for (unsigned int i = 0; i < n; i++) {
		void *object = kmem_cache_alloc(s, flags);

		failed += !object;
		kmem_cache_free(s, object);
	}
	return failed;
}

static void failures(void **state)
{
	struct kmem_cache *s = checked("failing", SLAB_FAILSLAB), *other = checked("fine", FZPU);
	unsigned int failed;

	(void)state;
	told_begin(&told);
	os_options.failslab_probability = 20;
	failed = count_failures(s, 1000, GFP_KERNEL);
	assert_in_range(failed, 100, 300);
	assert_int_equal(told_end(&told), 1);
	assert_non_null(strstr(told.text, "an allocation from failing fails on purpose"));
	assert_int_equal(count_failures(s, 1000, GFP_KERNEL | __GFP_NOFAIL), 0);
	assert_int_equal(count_failures(other, 1000, GFP_KERNEL), 0);
	os_options.failslab_probability = 100;
	assert_int_equal(count_failures(s, 100, GFP_KERNEL), 100);
	assert_null(kmem_cache_prefill_sheaf(s, GFP_KERNEL, 4));
	assert_null(kmem_cache_alloc_nolock(s, GFP_NOWAIT));
	assert_null(mempool_create_slab_pool(2, s));
	os_options.failslab_interval = 10;
	assert_in_range(count_failures(s, 100, GFP_KERNEL), 9, 11);
	os_options.failslab_interval = 1;
	os_options.failslab_times = 5;
	assert_int_equal(count_failures(s, 100, GFP_KERNEL) + 0, 5);
	os_options.failslab_times = 0;
	os_options.failslab_probability = 1;
	end(other);
	end(s);
}

/* Each letter works alone. */
static void letters_by_themselves(void **state)
{
	struct kmem_cache *s = checked("only-z", SLAB_RED_ZONE);
	char *object = take(s);

	(void)state;
	object[32] = 0;
	told_begin(&told);
	kmem_cache_free(s, object);
	assert_true(told_end(&told) > 0);
	end(s);
	s = checked("only-p", SLAB_POISON);
	object = take(s);
	kmem_cache_free(s, object);
	object[0] = 0;
	told_begin(&told);
	kmem_cache_free(s, take(s));
	assert_true(told_end(&told) > 0);
	end(s);
}

/* SLAB_DEBUG-D4: what was found is repaired, and the next mistake is found, too. */
static void goes_on(void **state)
{
	struct kmem_cache *s = checked("goes-on", FZPU);

	(void)state;
	for (int i = 0; i < 3; i++) {
		char *object = take(s);

		object[32 + i] = 0;
		told_begin(&told);
		kmem_cache_free(s, object);
		assert_true(told_end(&told) > 0);
		told_begin(&told);
		kmem_cache_free(s, object);
		assert_true(told_end(&told) > 0);
	}
	end(s);
}

static struct kmem_cache *raced;

static void *free_it(void *object)
{
	kmem_cache_free(raced, object);
	return NULL;
}

/* Of two threads that free an object at the same time, one gets a report (SLAB_DEBUG-D1). */
static void racing_frees(void **state)
{
	struct kmem_cache *s = checked("racing", FZPU);

	(void)state;
#ifdef __SANITIZE_THREAD__
	/* The report reads bytes that the other thread is just filling. */
	skip();
#endif
	raced = s;
	for (int i = 0; i < 200; i++) {
		void *object = take(s);
		uint32_t before = os_reports;
		pthread_t thread;

		told_begin(&told);
		pthread_create(&thread, NULL, free_it, object);
		kmem_cache_free(s, object);
		pthread_join(thread, NULL);
		told_end_kept(&told);
		assert_int_equal(os_reports - before, 1);
	}
	end(s);
}

static struct kmem_cache *shown;

static void free_twice(void)
{
	void *object = take(shown);

	kmem_cache_free(shown, object);
	kmem_cache_free(shown, object);
	os_report("not reached");
}

static void free_twice_and_stop(void)
{
	os_options.panic_on_warn = 1;
	free_twice();
}

/* With panic_on_warn the whole report is written, and nothing after it. */
static void panic(void **state)
{
	int status;

	(void)state;
	shown = checked("panic", FZPU);
	told_begin(&told);
	status = in_child(free_twice_and_stop);
	assert_true(told_end(&told) > 0);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_non_null(strstr(told.text, "TRY panic: "));
	assert_null(strstr(told.text, "not reached"));
	end(shown);
}

static void in_handler(int number)
{
	void *object = kmem_cache_alloc_nolock(shown, GFP_NOWAIT);

	(void)number;
	CHECK(object);
	kmem_cache_free_nolock(shown, object);
	kmem_cache_free_nolock(shown, object);
}

/* Standard error is closed, or full without a reader: the program continues, also in a signal
 * handler. */
static void in_bad_places(void)
{
	int ends[2];

	CHECK(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
	close(STDERR_FILENO);
	free_twice();
	while (write(ends[1], "full", 4) > 0)
		;
	CHECK(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
	signal(SIGUSR1, in_handler);
	raise(SIGUSR1);
	CHECK(kmem_cache_verify(shown) == 0);
}

static void reports_in_bad_places(void **state)
{
	(void)state;
	shown = checked("places", FZPU);
	kmem_cache_free(shown, take(shown));
	assert_int_equal(in_child(in_bad_places), 0);
	end(shown);
}

/* Threads that report while the process forks; the child reports, too. */
static void *report_often(void *unused)
{
	for (int i = 0; i < 300; i++)
		free_twice();
	return unused;
}

static void forks_while_reporting(void **state)
{
	pthread_t thread;

	(void)state;
#ifdef __SANITIZE_THREAD__
	skip(); /* a child reports that it misses the thread */
#endif
	shown = checked("forked", FZPU);
	told_begin(&told);
	pthread_create(&thread, NULL, report_often, NULL);
	for (int i = 0; i < 20; i++)
		assert_int_equal(in_child(free_twice), 0);
	pthread_join(thread, NULL);
	told_end_kept(&told);
	end(shown);
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
		cmocka_unit_test(write_after_free_is_verified),
		cmocka_unit_test(overflow),
		cmocka_unit_test(underflow),
		cmocka_unit_test(overflow_into_a_free_object),
		cmocka_unit_test(metadata_overwritten),
		cmocka_unit_test(waits_for_a_grace_period),
		cmocka_unit_test(checked_after_the_grace_period),
		cmocka_unit_test(uninitialised_use),
		cmocka_unit_test(a_constructed_object_keeps_its_state),
		cmocka_unit_test(a_type_stable_object_is_not_written_to),
		cmocka_unit_test(leaks_by_stack),
		cmocka_unit_test(traces),
		cmocka_unit_test(failures),
		cmocka_unit_test(letters_by_themselves),
		cmocka_unit_test(goes_on),
		cmocka_unit_test(racing_frees),
		cmocka_unit_test(panic),
		cmocka_unit_test(reports_in_bad_places),
		cmocka_unit_test(forks_while_reporting),
	};

	sheaf_rcu_register(&by_hand_ops);
	/* A sanitizer would end the program at the first misuse. */
	os.tools = 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
