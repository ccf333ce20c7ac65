/* SPDX-License-Identifier: MIT */
/* kmem_cache_create: both forms, every wrong argument, merging, names, alignment. */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/needs.h"
#include "kit/options.h"
#include "kit/process.h"
#include "kit/unit.h"

static struct capture captured;

struct thing {
	uint64_t a, b, c;
};

static void nothing(void *object)
{
	(void)object;
}

/* The distance between objects; a checked cache needs more room around each, and keeps the
 * alignment. */
static void check_stride(struct kmem_cache *s, unsigned int bytes, unsigned int align)
{
	if (look(s).slab_size != bytes && has_slab_debug()) {
		assert_true(look(s).slab_size > bytes);
		assert_int_equal(look(s).slab_size % align, 0);
	} else {
		assert_int_equal(look(s).slab_size, bytes);
	}
}

static void create_forms(void **state)
{
	struct kmem_cache_args args = {.align = 64};
	struct kmem_cache *plain = kmem_cache_create("forms-plain", 40, NULL, SLAB_NO_MERGE);
	struct kmem_cache *with_args = kmem_cache_create("forms-args", 40, &args, SLAB_NO_MERGE);
	struct kmem_cache *old = kmem_cache_create("forms-old", 40, 128, SLAB_NO_MERGE, nothing);
	struct kmem_cache *typed = KMEM_CACHE(thing, SLAB_NO_MERGE);
	struct kmem_cache *nameless = kmem_cache_create(NULL, 8, NULL, SLAB_NO_MERGE);

	(void)state;
	check_stride(plain, 40, 8);
	check_stride(with_args, 64, 64);
	check_stride(old, 128, 128);
	assert_int_equal(look(old).ctor, 1);
	assert_int_equal(kmem_cache_size(typed), sizeof(struct thing));
	assert_string_equal(look(typed).name, "thing");
	assert_non_null(nameless);
	kmem_cache_destroy(plain);
	kmem_cache_destroy(with_args);
	kmem_cache_destroy(old);
	kmem_cache_destroy(typed);
	kmem_cache_destroy(nameless);
	kmem_cache_destroy(NULL);
}

/* A program built with an older header passes fewer bytes: the bytes after them are not read. */
static void smaller_args(void **state)
{
	struct kmem_cache_args args;
	struct kmem_cache *s;

	(void)state;
	memset(&args, 0xff, sizeof(args));
	args.align = 32;
	args.useroffset = 0;
	s = __kmem_cache_create_args("older", 40, &args, offsetof(struct kmem_cache_args, usersize),
				     SLAB_NO_MERGE);
	assert_non_null(s);
	check_stride(s, 64, 32);
	assert_int_equal(look(s).ctor, 0);
	kmem_cache_destroy(s);
}

/* No header has a structure that ends within a field. */
static void cut_args(void **state)
{
	const struct kmem_cache_args args = {.ctor = nothing};
	const size_t sizes[] = {
		1,
		sizeof(args.align) - 1,
		offsetof(struct kmem_cache_args, ctor) + sizeof(args.ctor) / 2,
		sizeof(args) - 1,
		sizeof(args) + 1,
		SIZE_MAX,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		capture_begin(&captured);
		assert_null(__kmem_cache_create_args("cut", 40, &args, sizes[i], SLAB_NO_MERGE));
		assert_int_equal(capture_end(&captured), 1);
		assert_non_null(strstr(captured.text, "sizeof(struct kmem_cache_args)"));
	}
}

/* A newer header has more fields. The library need not know them as long as they are zero. */
static void larger_args(void **state)
{
	struct {
		struct kmem_cache_args known;
		char unknown[24];
	} args;
	struct kmem_cache *s;

	(void)state;
	memset(&args, 0, sizeof(args));
	args.known.align = 32;
	s = __kmem_cache_create_args("newer", 40, &args.known, sizeof(args), SLAB_NO_MERGE);
	assert_non_null(s);
	check_stride(s, 64, 32);
	kmem_cache_destroy(s);
	args.unknown[23] = 1;
	capture_begin(&captured);
	s = __kmem_cache_create_args("newer", 40, &args.known, sizeof(args), SLAB_NO_MERGE);
	assert_int_equal(capture_end(&captured), 1);
	assert_null(s);
	assert_non_null(strstr(captured.text, "kmem_cache_create(newer)"));
}

/* Reserved fields may be fields of a newer header, and need not be known either. */
static void reserved_args(void **state)
{
	const struct kmem_cache_args wrong[] = {
		{.reserved = {1}}, {.reserved = {0, 1}}, {.reserved = {0, 0, 1}}, {.reserved2 = 1}};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		capture_begin(&captured);
		assert_null(kmem_cache_create("newer", 40, &wrong[i], 0));
		assert_int_equal(capture_end(&captured), 1);
		assert_non_null(strstr(captured.text, "kmem_cache_create(newer)"));
	}
}

struct message {
	long id;
	char text[24];
};

/* The library uses only two facts about the region: it lies in the object, and the cache is not
 * merged. */
static void region_for_users(void **state)
{
	struct kmem_cache *a = KMEM_CACHE_USERCOPY(message, 0, text), *b = KMEM_CACHE(message, 0);
	struct kmem_cache *c;

	(void)state;
	assert_true(a && b && a != b);
	assert_int_equal(kmem_cache_size(a), sizeof(struct message));
	capture_begin(&captured);
	c = kmem_cache_create_usercopy("message", 32, 8, 0, (size_t)5 << 32, 1, NULL);
	assert_int_equal(capture_end(&captured), 1);
	assert_true(c == b || (c && has_slab_debug()));
	kmem_cache_destroy(a);
	kmem_cache_destroy(b);
	kmem_cache_destroy(c);
}

static void wrong_arguments(void **state)
{
	static const struct {
		size_t size;
		struct kmem_cache_args args;
		slab_flags_t flags;
		const char *word;
	} table[] = {
		{0, {.align = 0}, 0, "size"},
		{KMEM_CACHE_MAX_SIZE + 1, {.align = 0}, 0, "size"},
		{(size_t)-1, {.align = 0}, 0, "size"},
		{64, {.align = 3}, 0, "align"},
		{64, {.align = 1u << 21}, 0, "align"},
		{64, {.align = 0}, 0x40000000u, "flags"},
		{64, {.sheaf_capacity = 4097}, 0, "sheaf_capacity"},
		{64, {.use_freeptr_offset = 1}, 0, "freeptr_offset"},
		{64, {.use_freeptr_offset = 1, .freeptr_offset = 4, .ctor = nothing}, 0, "freeptr"},
		{64,
		 {.use_freeptr_offset = 1, .freeptr_offset = 64, .ctor = nothing},
		 0,
		 "freeptr"},
		{64,
		 {.use_freeptr_offset = 1, .freeptr_offset = 0xfffffff8, .ctor = nothing},
		 0,
		 "freeptr"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct kmem_cache *s;

		capture_begin(&captured);
		s = kmem_cache_create("bad", table[i].size, &table[i].args, table[i].flags);
		assert_int_equal(capture_end(&captured), 1);
		assert_null(s);
		assert_non_null(strstr(captured.text, "kmem_cache_create(bad)"));
		assert_non_null(strstr(captured.text, table[i].word));
	}
	capture_begin(&captured);
	assert_null(kmem_cache_create("bad", 64, (size_t)1 << 40, 0, NULL));
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "invalid align 1099511627776; "));
}

static const slab_flags_t public_flags =
	SLAB_HWCACHE_ALIGN | SLAB_PANIC | SLAB_NO_MERGE | SLAB_NO_SHEAVES | SLAB_RECLAIM_ACCOUNT |
	SLAB_ACCOUNT | SLAB_TYPESAFE_BY_RCU | SLAB_CONSISTENCY_CHECKS | SLAB_RED_ZONE |
	SLAB_POISON | SLAB_STORE_USER | SLAB_TRACE | SLAB_FAILSLAB | SLAB_NO_USER_FLAGS |
	SLAB_SECRET;

/* Those of the library, too. */
static void flags_that_are_not_public(void **state)
{
	(void)state;
	capture_begin(&captured);
	for (unsigned int i = 0; i < 32; i++)
		if (!(public_flags >> i & 1))
			assert_null(kmem_cache_create("private", 64, NULL, 1u << i));
	assert_true(capture_end(&captured) > 0);
	assert_non_null(strstr(captured.text, "flags with unknown bit"));
}

/* The kernel warns and continues without the region. */
static void wrong_user_region(void **state)
{
	struct kmem_cache_args args = {.useroffset = 60, .usersize = 8};
	struct kmem_cache *s;

	(void)state;
	capture_begin(&captured);
	s = kmem_cache_create("region", 64, &args, 0);
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(s);
	kmem_cache_destroy(s);
}

static void panic(void)
{
	kmem_cache_create("panic", 0, NULL, SLAB_PANIC);
}

static void slab_panic_aborts(void **state)
{
	int status;

	(void)state;
	capture_begin(&captured);
	status = in_child(panic);
	capture_end(&captured);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_non_null(strstr(captured.text, "SLAB_PANIC"));
}

static void merging(void **state)
{
	struct kmem_cache_args own = {.sheaf_capacity = 9}, few = {.barn_objects = 1000},
			       small = {.barn_bytes = 100000}, aligned = {.align = 16};
	struct kmem_cache *first, *alias, *apart, *wide, *bare, *others[3];
	void *object;

	(void)state;
	needs(NEED_MERGING);
	first = kmem_cache_create("merge-1", 490, NULL, 0);
	alias = kmem_cache_create("merge-2", 492, NULL, 0);
	apart = kmem_cache_create("merge-3", 490, NULL, SLAB_NO_MERGE);
	wide = kmem_cache_create("merge-4", 490, &own, 0);
	bare = kmem_cache_create("merge-5", 490, NULL, SLAB_NO_SHEAVES);
	others[0] = kmem_cache_create("merge-6", 490, &few, 0);
	others[1] = kmem_cache_create("merge-7", 490, &small, 0);
	/* Its objects have the same size, and not this alignment. */
	others[2] = kmem_cache_create("merge-8", 496, &aligned, 0);
	for (int i = 0; i < 3; i++) {
		assert_non_null(others[i]);
		assert_ptr_not_equal(first, others[i]);
		kmem_cache_destroy(others[i]);
	}
	assert_ptr_equal(first, alias);
	assert_ptr_not_equal(first, apart);
	assert_ptr_not_equal(first, wide);
	assert_int_equal(first == bare, is_tiny());
	assert_int_equal(kmem_cache_size(first), 492);
	kmem_cache_destroy(first);
	object = kmem_cache_zalloc(alias, GFP_KERNEL);
	assert_non_null(object);
	kmem_cache_free(alias, object);
	kmem_cache_destroy(alias);
	kmem_cache_destroy(apart);
	kmem_cache_destroy(wide);
	kmem_cache_destroy(bare);
}

/* Reported once, and the text stays one short line for every name. */
static void names_are_for_reports(void **state)
{
	struct kmem_cache *s;
	char *name = malloc(3 << 20);

	(void)state;
	capture_begin(&captured);
	s = kmem_cache_create(NULL, 64, NULL, SLAB_NO_MERGE);
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "NULL"));
	assert_non_null(s);
	kmem_cache_destroy(s);

	memset(name, 'n', (3 << 20) - 1);
	name[(3 << 20) - 1] = 0;
	memcpy(name, "a\nb\033c", 5);
	s = kmem_cache_create(name, 64, NULL, SLAB_NO_MERGE);
	assert_non_null(s);
	capture_begin(&captured);
	kmem_cache_set_sheaf_capacity(s, 0);
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "a?b?cnn"));
	kmem_cache_destroy(s);
	free(name);
}

static void name_in_use_warns_once(void **state)
{
	/* The first two differ, and have the same hash. */
	static const char *const names[] = {"costarring", "liquid", "the-same-name",
					    "the-same-name", "the-same-name"};
	struct kmem_cache *s[5];

	(void)state;
	capture_begin(&captured);
	for (int i = 0; i < 5; i++)
		s[i] = kmem_cache_create(names[i], 64, NULL, SLAB_NO_MERGE);
	assert_int_equal(capture_end(&captured), 1);
	assert_non_null(strstr(captured.text, "the-same-name"));
	for (int i = 0; i < 5; i++) {
		assert_non_null(s[i]);
		kmem_cache_destroy(s[i]);
	}
}

static void place_of_a_free_pointer(void **state)
{
	struct kmem_cache_args args = {
		.use_freeptr_offset = 1, .freeptr_offset = 56, .ctor = nothing};
	struct kmem_cache *s = kmem_cache_create("place", 64, &args, 0);

	(void)state;
	assert_non_null(s);
	kmem_cache_destroy(s);
}

static void hwcache_align(void **state)
{
	(void)state;
	for (unsigned int size = 1; size < 200; size += 7) {
		struct kmem_cache *s =
			kmem_cache_create("line", size, NULL, SLAB_HWCACHE_ALIGN | SLAB_NO_MERGE);
		unsigned int align = size > 32 ? 64 : size > 16 ? 32 : size > 8 ? 16 : 8;
		void *p[10];

		assert_int_equal(kmem_cache_alloc_bulk(s, GFP_KERNEL, 10, p), 10);
		for (int i = 0; i < 10; i++)
			assert_int_equal((uintptr_t)p[i] % align, 0);
		kmem_cache_free_bulk(s, 10, p);
		kmem_cache_destroy(s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(name_in_use_warns_once),
		cmocka_unit_test(create_forms),
		cmocka_unit_test(smaller_args),
		cmocka_unit_test(cut_args),
		cmocka_unit_test(larger_args),
		cmocka_unit_test(reserved_args),
		cmocka_unit_test(region_for_users),
		cmocka_unit_test(wrong_arguments),
		cmocka_unit_test(flags_that_are_not_public),
		cmocka_unit_test(wrong_user_region),
		cmocka_unit_test(slab_panic_aborts),
		cmocka_unit_test(merging),
		cmocka_unit_test(names_are_for_reports),
		cmocka_unit_test(place_of_a_free_pointer),
		cmocka_unit_test(hwcache_align),
	};

	return cmocka_run_group_tests_name("create", tests, NULL, NULL);
}
