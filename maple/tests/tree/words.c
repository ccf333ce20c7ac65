/* SPDX-License-Identifier: MIT */
/*
 * The words of a node: copied, filled and searched. Compiled with -O3, so that the compiler uses
 * its assumptions about types: a slot is a pointer, a pivot is a number, and the compiler must see
 * that copying both may change either.
 */
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "../../src/node.h"
#include "kit/unit.h"

#define ENTRY(i) ((void *)(uintptr_t)(0x10000 + 16 * (uintptr_t)(i)))

/*
 * The words read afterwards are those that were copied, although they are read with another type.
 */
static void *slot_after_copy(void **slot, void *const *from)
{
	*slot = ENTRY(1);
	copy_words(slot, from, 1);
	return *slot;
}

static unsigned long pivot_after_copy(unsigned long *pivot, const unsigned long *from)
{
	*pivot = 1;
	copy_words(pivot, from, 1);
	return *pivot;
}

static void *slot_after_fill(void **slot)
{
	*slot = ENTRY(1);
	fill_words(slot, 0, 1);
	return *slot;
}

static void *slot_after_pair(void **slot, void *const *from)
{
	slot[1] = ENTRY(1);
	copy_pair(slot, from);
	return slot[1];
}

static void words_of_any_type(void **state)
{
	void *slot[2] = {NULL, NULL}, *from[2] = {ENTRY(7), ENTRY(8)};
	unsigned long pivot, number = 9;

	(void)state;
	assert_ptr_equal(slot_after_copy(slot, from), ENTRY(7));
	assert_int_equal(pivot_after_copy(&pivot, &number), 9);
	assert_null(slot_after_fill(slot));
	assert_ptr_equal(slot_after_pair(slot, from), ENTRY(8));
}

/* Copies of each length change not one word more. */
static void words_of_each_length(void **state)
{
	(void)state;
	for (unsigned int n = 0; n <= LEAF_SLOTS; n++) {
		void *from[LEAF_SLOTS + 1], *to[LEAF_SLOTS + 1];

		for (unsigned int i = 0; i <= LEAF_SLOTS; i++) {
			from[i] = ENTRY(i);
			to[i] = ENTRY(99);
		}
		copy_words(to, from, n);
		for (unsigned int i = 0; i <= LEAF_SLOTS; i++)
			assert_ptr_equal(to[i], i < n ? ENTRY(i) : ENTRY(99));
		fill_words(to, (uintptr_t)ENTRY(5), n);
		for (unsigned int i = 0; i <= LEAF_SLOTS; i++)
			assert_ptr_equal(to[i], i < n ? ENTRY(5) : ENTRY(99));
	}
}

/* How many pivots are below each index, in nodes of each size. */
static void searches(void **state)
{
	(void)state;
	for (unsigned int end = 0; end < LEAF_SLOTS; end++) {
		struct maple_node node = {.meta = end};

		for (unsigned int i = 0; i < LEAF_SLOTS - 1; i++)
			node.range.pivot[i] = i < end ? 10 * i + 5 : ULONG_MAX;
		for (unsigned long index = 0; index < 200; index++) {
			unsigned int wanted = 0;

			while (wanted < end && node.range.pivot[wanted] < index)
				wanted++;
			assert_int_equal(search15(node.range.pivot, index), wanted);
			if (end < ARANGE_SLOTS)
				assert_int_equal(search9(node.range.pivot, index), wanted);
		}
		assert_int_equal(search15(node.range.pivot, ULONG_MAX), end);
	}
}

/*
 * A static tree has a lock that was never initialised: the C library's initial value is the same.
 */
static void lock_of_zeros(void **state)
{
	const pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	DEFINE_MTREE(mt);

	(void)state;
	assert_memory_equal(&mutex, mt.ma_lock, sizeof(mutex));
}

/* Wherever the tree is, its lock is not in the cache line that a lookup reads. */
static void lock_apart_from_root(void **state)
{
	(void)state;
	assert_true(offsetof(struct maple_tree, ma_flags) >=
		    offsetof(struct maple_tree, ma_root) + 64);
	assert_true(offsetof(struct maple_tree, ma_owner) >= offsetof(struct maple_tree, ma_flags));
	assert_true(offsetof(struct maple_tree, ma_lock) >= offsetof(struct maple_tree, ma_flags));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_of_any_type),
		cmocka_unit_test(words_of_each_length),
		cmocka_unit_test(searches),
		cmocka_unit_test(lock_of_zeros),
		cmocka_unit_test(lock_apart_from_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
