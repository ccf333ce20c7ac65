/* SPDX-License-Identifier: MIT */
/* Properties of kmalloc()'s size classes, for every size. */
#include <sheaf/slab.h>

#include <stdint.h>

#include "cache/block.h"
#include "kit/needs.h"
#include "kmalloc/kmalloc.h"
#include "os/options/options.h"

/* The next class of at least this size. */
static size_t class_of(size_t size)
{
	size_t i = 0;

	while (kmalloc_sizes[i] < size)
		i++;
	return kmalloc_sizes[i];
}

static void four_classes_a_doubling(void **state)
{
	(void)state;
	for (size_t whole = 64; whole < KMALLOC_FINE; whole *= 2)
		for (size_t quarter = 1; quarter <= 4; quarter++)
			assert_int_equal(class_of(whole + (quarter - 1) * whole / 4 + 1),
					 whole + quarter * whole / 4);
}

static void every_size_is_rounded_up_a_little(void **state)
{
	size_t before = 0;

	(void)state;
	for (size_t size = 1; size <= KMALLOC_MAX_CACHE_SIZE; size++) {
		size_t rounded = kmalloc_size_roundup(size);

		assert_int_equal(rounded, class_of(size));
		assert_int_equal(kmalloc_size_roundup(rounded), rounded);
		assert_true(rounded >= before);
		if (size > 64 && size <= KMALLOC_FINE)
			assert_true((rounded - size) * 5 <= rounded);
		if (size > KMALLOC_FINE)
			assert_true(!(rounded & (rounded - 1)) && rounded / 2 < size);
		if (size > 8)
			assert_int_equal(rounded % 16, 0);
		if (!(size & (size - 1)) && size >= 8)
			assert_int_equal(rounded, size);
		before = rounded;
	}
	/* Above: runs of 2^n pages. */
	assert_true(kmalloc_size_roundup(KMALLOC_MAX_CACHE_SIZE + 1) > KMALLOC_MAX_CACHE_SIZE);
}

/* The promises of a block hold for the first and the last size of each class. */
static void blocks_of_each_class(void **state)
{
	(void)state;
	needs(NEED_SHEAVES); /* with red zones, the largest blocks are no objects */
	for (size_t i = 1; i < KMALLOC_CACHES; i++)
		for (size_t size = kmalloc_sizes[i - 1] + 1; size <= kmalloc_sizes[i];
		     size += size < kmalloc_sizes[i] ? kmalloc_sizes[i] - size : 1) {
			char *p[9];

			for (int n = 0; n < 9; n++) {
				p[n] = kmalloc(size, GFP_KERNEL);
				assert_non_null(p[n]);
				assert_int_equal((uintptr_t)p[n] % (size > 8 ? 16 : 8), 0);
				if (!(size & (size - 1)))
					assert_int_equal((uintptr_t)p[n] % size, 0);
				assert_int_equal(block_of(p[n]).kind, BLOCK_OBJECT);
				assert_int_equal(ksize(p[n]), kmalloc_size_roundup(size));
			}
			for (int n = 0; n < 9; n++)
				kfree(p[n]);
		}
}

/* What is left at the end of a slab is at most an eighth of it. */
static void slabs_are_nearly_whole(void **state)
{
	(void)state;
	needs(NEED_SHEAVES);
	if (os_options.max_order != 3)
		skip();
	for (size_t i = 1; i < KMALLOC_CACHES; i++) {
		void *p = kmalloc(kmalloc_sizes[i], GFP_KERNEL);
		const struct slab_cache *cache = &block_of(p).cache->sheaf.slab;
		size_t bytes = OS_PAGE << cache->oo.order;

		assert_int_equal(cache->object_size, kmalloc_sizes[i]);
		assert_true((bytes - (size_t)cache->oo.objects * cache->size) * 8 <= bytes);
		kfree(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(four_classes_a_doubling),
		cmocka_unit_test(every_size_is_rounded_up_a_little),
		cmocka_unit_test(blocks_of_each_class),
		cmocka_unit_test(slabs_are_nearly_whole),
	};

	return cmocka_run_group_tests_name("kmalloc-sizes", tests, NULL, NULL);
}
