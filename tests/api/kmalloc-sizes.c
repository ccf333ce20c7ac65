/* SPDX-License-Identifier: MIT */
/* Properties of kmalloc()'s size classes, for every size. */
#include <sheaf/slab.h>

#include <stdbool.h>
#include <stdint.h>

#include "kit/cache.h"
#include "kit/needs.h"

/* Up to here there are eight classes for each doubling, above the powers of two. */
#define FINE ((size_t)32 << 10)

static bool is_class(size_t size)
{
	size_t whole = 8, step;

	while (whole < size)
		whole *= 2;
	step = whole / 2 / (size > FINE ? 1 : 8);
	return size == 8 || size % (step < 16 ? 16 : step) == 0;
}

/* Each size gets the least class that fits. */
static void every_size_gets_the_least_class(void **state)
{
	size_t class = 0, n = 0;

	(void)state;
	for (size_t size = 1; size <= KMALLOC_MAX_CACHE_SIZE; size++) {
		if (size > class) {
			while (!is_class(++class))
				;
			n++;
		}
		assert_int_equal(kmalloc_size_roundup(size), class);
		if (size > 128)
			assert_true((class - size) * (size > FINE ? 2 : 9) < class);
	}
	assert_int_equal(n, 78);
	assert_int_equal(kmalloc_size_roundup(0), 0);
	/* Above: a large block. */
	assert_true(kmalloc_size_roundup(KMALLOC_MAX_CACHE_SIZE + 1) > KMALLOC_MAX_CACHE_SIZE);
}

/* Each is a class of the kernel's. */
static void sizes_of_the_kernel(void **state)
{
	(void)state;
	for (size_t size = 8; size <= KMALLOC_MAX_CACHE_SIZE; size *= 2)
		assert_int_equal(kmalloc_size_roundup(size), size);
	assert_int_equal(kmalloc_size_roundup(96), 96);
	assert_int_equal(kmalloc_size_roundup(192), 192);
}

static void check_blocks(size_t size)
{
	size_t class = kmalloc_size_roundup(size);
	char *p[9];

	for (int n = 0; n < 9; n++) {
		p[n] = kmalloc(size, GFP_KERNEL);
		assert_non_null(p[n]);
		assert_int_equal(ksize(p[n]), class);
		assert_int_equal((uintptr_t)p[n] % (class & -class), 0);
	}
	/* They are objects. */
	assert_int_equal(library().mapped_bytes, 0);
	for (int n = 0; n < 9; n++)
		kfree(p[n]);
}

/* The promises of a block hold for the first and the last size of each class: it is aligned to the
 * largest power of two that divides the class. */
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
		cmocka_unit_test(every_size_gets_the_least_class),
		cmocka_unit_test(sizes_of_the_kernel),
		cmocka_unit_test(blocks_of_each_class),
	};

	return cmocka_run_group_tests_name("kmalloc-sizes", tests, NULL, NULL);
}
