/* SPDX-License-Identifier: MIT */
/* kmalloc() and related calls: sizes, alignment, arrays, resizing, large blocks, misuse. */
#include <errno.h>
#include <limits.h>
#include <sheaf/slab.h>
#include <sheaf/trim.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kit/blocks.h"
#include "kit/cache.h"
#include "kit/capture.h"
#include "kit/hooks.h"
#include "kit/needs.h"
#include "kit/options.h"
#include "kit/process.h"
#include "kit/random.h"
#include "kit/unit.h"

enum {
	MiB = 1 << 20
};

static struct capture captured;

/* --- sizes ------------------------------------------------------------------------------------ */

static void arrays_do_not_overflow(void **state)
{
	volatile size_t most = SIZE_MAX, half = most / 2 + 1, n = 5;
	char *p = kcalloc(n, 10, GFP_KERNEL);

	(void)state;
	assert_int_equal(ksize(p), usable(50, 64));
	assert_null(kmalloc_array(half, 2, GFP_KERNEL));
	assert_null(kcalloc(2, half, GFP_KERNEL));
	assert_null(kvmalloc_array(half, 4, GFP_KERNEL));
	assert_null(kvcalloc(most, most, GFP_KERNEL));
	assert_null(krealloc_array(p, half, 2, GFP_KERNEL));
	assert_ptr_equal(kmalloc_array(0, half, GFP_KERNEL), ZERO_SIZE_PTR);
	p = krealloc_array(p, n, 20, GFP_KERNEL);
	assert_int_equal(ksize(p), usable(100, 112));
	kfree(p);
}

static void gfp_flags(void **state)
{
	volatile size_t size = 50;
	void *p;

	(void)state;
	capture_begin(&captured);
	p = kmalloc(size, GFP_KERNEL | 0x80000000u);
	kfree(p);
	kfree(kmalloc(MiB + 1, GFP_KERNEL | 0x80000000u));
	assert_int_equal(capture_end(&captured), 2);
	assert_non_null(strstr(captured.text, "0x80000000 does not exist"));
	assert_non_null(strstr(captured.text, "kmalloc-large"));
}

/* --- resizing --------------------------------------------------------------------------------- */

static void fill(char *p, size_t size)
{
	for (size_t i = 0; i < size; i++)
		p[i] = (char)(i * 7 + 1);
}

static bool is_filled(const char *p, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (p[i] != (char)(i * 7 + 1))
			return false;
	return true;
}

/* A block moves only when the new size is half of it or less. */
static void krealloc_shrink(void **state)
{
	static const size_t sizes[] = {6 * MiB, 3 * MiB, 2 * MiB, 1500000, 100000, 8193, 8192,
				       4096,	2049,	 1000,	  130,	   128,	   64,	 33,
				       32,	17,	 9,	  8,	   1};
	gfp_t flags = GFP_KERNEL;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (size_t j = i; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
			char *p = kvmalloc(sizes[i], GFP_KERNEL), *q;
			size_t old = ksize(p);

			fill(p, sizes[j]);
			q = kvrealloc(p, sizes[j], flags ^= __GFP_ZERO);
			assert_true(is_filled(q, sizes[j]));
			if (q == p && 2 * ksize(q) > old)
				assert_int_equal(ksize(q), usable(sizes[j], old));
			else
				assert_true(2 * ksize(q) <= old);
			assert_true(q != p || ksize(q) < 4 * sizes[j] || ksize(q) == 8);
			for (size_t k = sizes[j]; flags & __GFP_ZERO && k < ksize(q); k++)
				assert_int_equal(q[k], 0);
			kvfree(q);
		}
}

/* A block of a separate set of caches moves to another cache of that set. */
static void krealloc_keeps_the_set(void **state)
{
	static const size_t sizes[] = {1000, 10, 3000, 2900, 900000, 8};
	kmem_buckets *set = kmem_buckets_create("apart", 0, 0, 0, NULL);
	char *p = NULL;

	(void)state;
	p = kmem_buckets_alloc(set, 100, GFP_KERNEL);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		fill(p, 8);
		p = krealloc(p, sizes[i], GFP_KERNEL);
		assert_memory_equal(look(hook_cache_of(p)).name, "apart-", 6);
		assert_int_equal(ksize(p),
				 usable(sizes[i], i == 3 ? 3072 : kmalloc_size_roundup(sizes[i])));
		assert_true(is_filled(p, 8));
	}
	kfree(p);
	kmem_buckets_destroy(set);
}

/* A freed block that waits has old bytes, which would be cleared one by one. */
static void large_blocks_grow_by_zeros(void **state)
{
	char *p = kvmalloc(8 * MiB, GFP_KERNEL), *freed = kvmalloc(64 * MiB, GFP_KERNEL);

	(void)state;
	fill(p, 8 * MiB);
	freed[9 * MiB] = freed[64 * MiB - 1] = 7;
	kvfree(freed);
	p = kvrealloc(p, 64 * MiB, GFP_KERNEL | __GFP_ZERO);
	assert_true(is_filled(p, 8 * MiB));
	assert_int_equal(p[9 * MiB], 0);
	assert_int_equal(p[64 * MiB - 1], 0);
	kvfree(p);
}

/* An object of a cache may end within a page. */
static void large_objects_grow_by_zeros(void **state)
{
	size_t size = 3 * MiB + 100;
	struct kmem_cache *s = kmem_cache_create("large", size, 0, 0, NULL);
	char *p = kmem_cache_zalloc(s, GFP_KERNEL), *freed = kvmalloc(8 * MiB, GFP_KERNEL);

	(void)state;
	fill(p, size);
	memset(freed, 7, 8 * MiB);
	kvfree(freed);
	p = kvrealloc(p, 4 * MiB, GFP_KERNEL | __GFP_ZERO);
	assert_true(is_filled(p, size));
	for (size_t i = size; i < ksize(p); i++)
		assert_int_equal(p[i], 0);
	kvfree(p);
	kmem_cache_destroy(s);
}

static void krealloc_grow(void **state)
{
	static const size_t sizes[] = {1,    8,	   9,	 100,	 192,	  193,
				       5000, 8192, 8193, 100000, 2 * MiB, 3 * MiB};
	char *p = krealloc(NULL, 1, GFP_KERNEL);

	(void)state;
	sheaf_trim(0); /* A freed block that waits may be larger. */
	for (size_t i = 0; i + 1 < sizeof(sizes) / sizeof(sizes[0]); i++) {
		fill(p, sizes[i]);
		p = krealloc(p, sizes[i + 1], GFP_KERNEL);
		assert_non_null(p);
		assert_true(ksize(p) >= sizes[i + 1]);
		assert_true(is_filled(p, sizes[i]));
	}
	fill(p, 3 * MiB);
	assert_null(krealloc(p, KMALLOC_MAX_SIZE + 1, GFP_KERNEL | __GFP_NOWARN));
	p = kvrealloc(p, 7 * MiB, GFP_KERNEL);
	assert_true(is_filled(p, 3 * MiB));
	kvfree(p);
	p = krealloc(ZERO_SIZE_PTR, 10, GFP_KERNEL);
	assert_int_equal(ksize(p), usable(10, 16));
	assert_ptr_equal(krealloc(p, 0, GFP_KERNEL), ZERO_SIZE_PTR);
}

/* All calls have the flag: bytes that the user never wrote read zero. */
static void krealloc_zero(void **state)
{
	char *p = kzalloc(30, GFP_KERNEL);
	size_t used = 30;

	(void)state;
	for (size_t size = 10; size < 40000; size = size * 2 + 3) {
		fill(p, used);
		p = krealloc(p, size, GFP_KERNEL | __GFP_ZERO);
		assert_true(is_filled(p, used < size ? used : size));
		for (size_t i = used < size ? used : size; i < ksize(p); i++)
			assert_int_equal(p[i], 0);
		used = size;
	}
	kfree(p);
}

/* Only bytes of the old block are copied, not those of its neighbours. */
static void krealloc_copies_no_more(void **state)
{
	char *p[64];

	(void)state;
	for (int i = 0; i < 64; i++)
		p[i] = memset(kmalloc(64, GFP_KERNEL), 0x55, 64);
	for (int i = 0; i < 64; i++) {
		p[i] = krealloc(p[i], 128, GFP_KERNEL | __GFP_ZERO);
		for (size_t at = 64; at < 128; at++)
			assert_int_equal(p[i][at], 0);
	}
	for (int i = 0; i < 64; i++)
		kfree(p[i]);
}

/* --- large blocks ----------------------------------------------------------------------------- */

/* The neighbour must not be wiped before the library has seen that the pointer is wrong. */
static void a_pointer_into_a_block_changes_nothing(void **state)
{
	char *blocks[8];
	uint32_t reports;

	(void)state;
	for (int i = 0; i < 8; i++) {
		blocks[i] = kmalloc(64, GFP_KERNEL);
		memset(blocks[i], 0x55, 64);
	}
	capture_begin(&captured);
	reports = hook_reports();
	for (int i = 0; i < 8; i++) {
		kfree_sensitive(blocks[i] + 8);
		assert_null(krealloc(blocks[i] + 8, 128, GFP_KERNEL));
		assert_int_equal(ksize(blocks[i] + 8), 0);
	}
	assert_true(capture_end(&captured) > 0);
	assert_int_equal(hook_reports() - reports, 24);
	assert_non_null(strstr(captured.text, has_debug_letter('S')
						      ? "is 8 bytes into an object"
						      : "points 8 bytes into a block of 64"));
	for (int i = 0; i < 8; i++) {
		for (int j = 0; j < 64; j++)
			assert_int_equal(blocks[i][j], 0x55);
		kfree(blocks[i]);
	}
}

static void beyond_two_mib(void **state)
{
	volatile size_t too_much = KMALLOC_MAX_SIZE + 1, huge = (size_t)INT_MAX + 1;
	char *p = kzalloc(KMALLOC_MAX_SIZE, GFP_KERNEL);

	(void)state;
	assert_int_equal((uintptr_t)p % KMALLOC_MAX_SIZE, 0);
	assert_int_equal(p[KMALLOC_MAX_SIZE - 1], 0);
	kfree(p);
	capture_begin(&captured);
	assert_null(kmalloc(too_much, GFP_KERNEL | __GFP_NOWARN));
	assert_null(kvmalloc(huge, GFP_KERNEL | __GFP_NOWARN));
	assert_null(kmalloc(too_much, GFP_KERNEL));
	assert_null(kvmalloc(huge, GFP_KERNEL));
	assert_int_equal(capture_end(&captured), 2);
	assert_non_null(strstr(captured.text, "kvmalloc() can allocate more"));
	assert_non_null(strstr(captured.text, " vmalloc() can allocate more"));
	p = kvzalloc(INT_MAX, GFP_KERNEL);
	if (p) {
		p[INT_MAX - 1] = 1;
		kvfree(p);
	}
	assert_int_equal(kmalloc_size_roundup(3 * MiB + 1), 3 * MiB + MiB / 4);
	assert_int_equal(kmalloc_size_roundup(too_much), too_much);
}

/* No mapping has their size, and no class is computed for them. */
static void mappings_shrink_to_few_bytes(void **state)
{
	(void)state;
	for (size_t size = 1; size <= 64; size++) {
		char *p = kvmalloc(3 * MiB, GFP_KERNEL);

		p[0] = 7;
		p = kvrealloc(p, size, GFP_KERNEL);
		assert_int_equal(p[0], 7);
		assert_true(ksize(p) <= 64);
		kfree(p);
	}
}

/* The kept memory, but zero if that is requested. */
static void freed_mappings_are_allocated_again(void **state)
{
	static const size_t sizes[] = {MiB + 1, 3 * MiB / 2, 2 * MiB,  2 * MiB + 1,
				       3 * MiB, 4 * MiB,     16 * MiB, 64 * MiB};

	(void)state;
	if (hook_has_tools() || checks_double() || clears_on_free() || is_tiny())
		skip();
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		char *p = kvmalloc(sizes[i], GFP_KERNEL);
		size_t end = ksize(p) - 1;

		p[0] = p[end] = 7;
		kvfree(p);
		assert_ptr_equal(kvmalloc(sizes[i], GFP_KERNEL), p);
		assert_int_equal(ksize(p), end + 1);
		p[0] = p[end] = 8;
		kvfree(p);
		assert_ptr_equal(kvzalloc(sizes[i], GFP_KERNEL), p);
		assert_int_equal(p[0] + p[end], 0);
		kvfree(p);
	}
}

/* --- frees ------------------------------------------------------------------------------------ */

static size_t resident_pages(void *block, size_t size)
{
	static unsigned char pages[1024];
	size_t n = size / (size_t)sysconf(_SC_PAGESIZE), found = 0;

	assert_int_equal(mincore(block, size, pages), 0);
	for (size_t i = 0; i < n; i++)
		found += pages[i] & 1;
	return found;
}

static void assert_zero(const char *block, size_t size)
{
	assert_true(!block[0] && !memcmp(block, block + 1, size - 1));
}

/* Memory that comes from the system is zero, and is not cleared: it gets no pages before the
 * program touches it. What was in use before is cleared. */
static void fresh_memory_is_not_cleared_again(void **state)
{
	static const size_t sizes[] = {2 * MiB, 3 * MiB};

	(void)state;
	if (hook_has_tools())
		skip();
	for (int i = 0; i < 2; i++) {
		size_t size = sizes[i];
		char *p;

		sheaf_trim(0);
		p = kvzalloc(size, GFP_KERNEL);
		assert_int_equal(resident_pages(p, size), 0);
		assert_zero(p, size);
		for (int round = 0; round < 3; round++) {
			memset(p, 0x5a, size);
			kvfree(p);
			p = kvzalloc(size, GFP_KERNEL);
			assert_zero(p, size);
		}
		kvfree(p);
	}
}

static void copies(void **state)
{
	char *p;

	(void)state;
	assert_null(kstrdup(NULL, GFP_KERNEL));
	assert_null(kstrndup(NULL, 3, GFP_KERNEL));
	p = kstrdup("", GFP_KERNEL);
	assert_string_equal(p, "");
	kfree(p);
	p = kstrndup("abcdef", 100, GFP_KERNEL);
	assert_string_equal(p, "abcdef");
	kfree(p);
	p = kmemdup_nul("ab\0def", 5, GFP_KERNEL);
	assert_memory_equal(p, "ab\0de", 6);
	kfree(p);
	assert_ptr_equal(kmemdup("x", 0, GFP_KERNEL), ZERO_SIZE_PTR);
}

static void errno_is_kept(void **state)
{
	void *p;

	(void)state;
	errno = 4711;
	kfree(kmalloc(10, GFP_KERNEL));
	kfree(kmalloc(100000, GFP_KERNEL));
	p = kvmalloc(10 * MiB, GFP_KERNEL);
	kvfree(p);
	assert_int_equal(errno, 4711);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arrays_do_not_overflow),
		cmocka_unit_test(gfp_flags),
		cmocka_unit_test(krealloc_shrink),
		cmocka_unit_test(krealloc_keeps_the_set),
		cmocka_unit_test(large_blocks_grow_by_zeros),
		cmocka_unit_test(large_objects_grow_by_zeros),
		cmocka_unit_test(krealloc_grow),
		cmocka_unit_test(krealloc_zero),
		cmocka_unit_test(krealloc_copies_no_more),
		cmocka_unit_test(a_pointer_into_a_block_changes_nothing),
		cmocka_unit_test(beyond_two_mib),
		cmocka_unit_test(mappings_shrink_to_few_bytes),
		cmocka_unit_test(freed_mappings_are_allocated_again),
		cmocka_unit_test(fresh_memory_is_not_cleared_again),
		cmocka_unit_test(copies),
		cmocka_unit_test(errno_is_kept),
	};

	return cmocka_run_group_tests_name("kmalloc", tests, NULL, NULL);
}
