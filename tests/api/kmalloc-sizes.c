/* SPDX-License-Identifier: MIT */
/* Properties of kmalloc()'s size classes, for every size. */
#include <sheaf/slab.h>

#include <stdint.h>

#include "kit/cache.h"
#include "kit/needs.h"

/* The sizes up to here grow by a quarter or less, larger ones are powers of two. */
#define FINE ((size_t)32 << 10)

static void four_classes_a_doubling(void **state)
{
	(void)state;
	for (size_t whole = 64; whole < FINE; whole *= 2)
		for (size_t quarter = 1; quarter <= 4; quarter++)
			assert_int_equal(
				kmalloc_size_roundup(whole + (quarter - 1) * whole / 4 + 1),
				whole + quarter * whole / 4);
}

/* To the next class: a class is its own, and no size gets less than a smaller one. */
static void every_size_is_rounded_up_a_little(void **state)
{
	size_t before = 0;

	(void)state;
	for (size_t size = 1; size <= KMALLOC_MAX_CACHE_SIZE; size++) {
		size_t rounded = kmalloc_size_roundup(size);

		assert_true(rounded >= size);
		assert_int_equal(kmalloc_size_roundup(rounded), rounded);
		assert_true(rounded >= before);
		if (size > 64 && size <= FINE)
			assert_true((rounded - size) * 5 <= rounded);
		if (size > FINE)
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

static void check_blocks(size_t size)
{
	char *p[9];

	for (int n = 0; n < 9; n++) {
		p[n] = kmalloc(size, GFP_KERNEL);
		assert_non_null(p[n]);
		assert_int_equal((uintptr_t)p[n] % (size > 8 ? 16 : 8), 0);
		if (!(size & (size - 1)))
			assert_int_equal((uintptr_t)p[n] % size, 0);
		assert_int_equal(ksize(p[n]), kmalloc_size_roundup(size));
	}
	/* They are objects. */
	assert_int_equal(library().large_bytes, 0);
	for (int n = 0; n < 9; n++)
		kfree(p[n]);
}

/* The promises of a block hold for the first and the last size of each class. */
static void blocks_of_each_class(void **state)
{
	(void)state;
	needs(NEED_SHEAVES); /* with red zones, the largest blocks are no objects */
	for (size_t first = 1, last; first <= KMALLOC_MAX_CACHE_SIZE; first = last + 1) {
		last = kmalloc_size_roundup(first);
		check_blocks(first);
		if (last > first)
			check_blocks(last);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(four_classes_a_doubling),
		cmocka_unit_test(every_size_is_rounded_up_a_little),
		cmocka_unit_test(blocks_of_each_class),
	};

	return cmocka_run_group_tests_name("kmalloc-sizes", tests, NULL, NULL);
}
