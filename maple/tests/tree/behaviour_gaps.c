/* SPDX-License-Identifier: MIT */
/*
 * Documented behaviour: finding free indices and allocating numbers, with one test per behaviour.
 */
#include "behaviour.h"

static void alloc_range_forward(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_ALLOC_RANGE);
	unsigned long at = 0;

	(void)state;
	for (unsigned long i = 0; i < 400; i++) {
		assert_int_equal(mtree_alloc_range(&mt, &at, ENTRY(i), 7, 100, 2899, GFP_KERNEL),
				 0);
		assert_int_equal(at, 100 + 7 * i);
	}
	assert_int_equal(mtree_alloc_range(&mt, &at, ENTRY(1), 1, 100, 2899, GFP_KERNEL), -EBUSY);
	mtree_erase(&mt, 100 + 7 * 200);
	mtree_erase(&mt, 100 + 7 * 100);
	assert_int_equal(mtree_alloc_range(&mt, &at, ENTRY(1), 8, 100, 2899, GFP_KERNEL), -EBUSY);
	assert_int_equal(mtree_alloc_range(&mt, &at, ENTRY(1), 7, 100, 2899, GFP_KERNEL), 0);
	assert_int_equal(at, 100 + 7 * 100);
	assert_int_equal(mtree_alloc_range(&mt, &at, ENTRY(1), 0, 0, 9, GFP_KERNEL), -EINVAL);
	assert_int_equal(mtree_alloc_range(&mt, &at, ENTRY(1), 1, 9, 8, GFP_KERNEL), -EINVAL);
	assert_int_equal(mtree_alloc_range(&mt, &at, NULL, 1, 0, 9, GFP_KERNEL), -EINVAL);
	done(&mt);
}

static void alloc_range_reverse(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_ALLOC_RANGE);
	unsigned long at = 0;

	(void)state;
	for (unsigned long i = 0; i < 400; i++) {
		assert_int_equal(mtree_alloc_rrange(&mt, &at, ENTRY(i), 7, 100, 2899, GFP_KERNEL),
				 0);
		assert_int_equal(at, 2893 - 7 * i);
	}
	assert_int_equal(mtree_alloc_rrange(&mt, &at, ENTRY(1), 1, 100, 2899, GFP_KERNEL), -EBUSY);
	mtree_erase(&mt, 100 + 7 * 200);
	mtree_erase(&mt, 100 + 7 * 100);
	assert_int_equal(mtree_alloc_rrange(&mt, &at, ENTRY(1), 7, 100, 2899, GFP_KERNEL), 0);
	assert_int_equal(at, 100 + 7 * 200);
	assert_int_equal(mtree_alloc_rrange(&mt, &at, ENTRY(1), 100, 0, ULONG_MAX, GFP_KERNEL), 0);
	assert_int_equal(at, ULONG_MAX - 99);
	done(&mt);
}

static void alloc_cyclic(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_ALLOC_RANGE);
	unsigned long at = 0, next = 0;

	(void)state;
	for (unsigned long i = 10; i < 20; i++) {
		assert_int_equal(mtree_alloc_cyclic(&mt, &at, ENTRY(i), 10, 19, &next, GFP_KERNEL),
				 0);
		assert_int_equal(at, i);
		assert_int_equal(next, i + 1);
	}
	assert_int_equal(mtree_alloc_cyclic(&mt, &at, ENTRY(1), 10, 19, &next, GFP_KERNEL), -EBUSY);
	mtree_erase(&mt, 13);
	assert_int_equal(mtree_alloc_cyclic(&mt, &at, ENTRY(1), 10, 19, &next, GFP_KERNEL), 1);
	assert_int_equal(at, 13);
	assert_int_equal(next, 14);
	mtree_erase(&mt, 12);
	mtree_erase(&mt, 15);
	assert_int_equal(mtree_alloc_cyclic(&mt, &at, ENTRY(1), 10, 19, &next, GFP_KERNEL), 0);
	assert_int_equal(at, 15);
	done(&mt);
}

/* The number after ULONG_MAX is 0: the call that returns it says that the numbers wrapped around.
 */
static void alloc_cyclic_overflow(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_ALLOC_RANGE);
	unsigned long at = 0, next = ULONG_MAX;

	(void)state;
	assert_int_equal(mtree_alloc_cyclic(&mt, &at, ENTRY(1), 2, ULONG_MAX, &next, GFP_KERNEL),
			 0);
	assert_int_equal(at, ULONG_MAX);
	assert_int_equal(next, 0);
	assert_int_equal(mtree_alloc_cyclic(&mt, &at, ENTRY(2), 2, ULONG_MAX, &next, GFP_KERNEL),
			 1);
	assert_int_equal(at, 2);
	assert_int_equal(mtree_alloc_cyclic(&mt, &at, ENTRY(3), 2, ULONG_MAX, &next, GFP_KERNEL),
			 0);
	assert_int_equal(at, 3);
	done(&mt);
}

/* A full tree, in every form: -EBUSY, and nothing changes. */
static void full_spaces(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_ALLOC_RANGE);
	unsigned long at = 77, next = 0;
	MA_STATE(mas, &mt, 0, 0);

	(void)state;
	for (unsigned int round = 0; round < 2; round++) {
		if (round)
			for (unsigned long i = 0; i < 1000; i++)
				store(&mt, i, i < 999 ? i : ULONG_MAX, ENTRY(i));
		else
			store(&mt, 0, ULONG_MAX, ENTRY(1));
		assert_int_equal(mtree_alloc_range(&mt, &at, ENTRY(2), 1, 0, ULONG_MAX, GFP_KERNEL),
				 -EBUSY);
		assert_int_equal(
			mtree_alloc_rrange(&mt, &at, ENTRY(2), 1, 0, ULONG_MAX, GFP_KERNEL),
			-EBUSY);
		assert_int_equal(
			mtree_alloc_cyclic(&mt, &at, ENTRY(2), 0, ULONG_MAX, &next, GFP_KERNEL),
			-EBUSY);
		assert_int_equal(at, 77);
		assert_int_equal(next, 0);
		assert_int_equal(mas_empty_area(&mas, 0, ULONG_MAX, 1), -EBUSY);
		assert_int_equal(mas_error(&mas), -EBUSY);
		assert_int_equal(mas_empty_area_rev(&mas, 5, 500, 1), -EBUSY);
	}
	/* One index is free: it is found, and only within the limits. */
	mtree_erase(&mt, 600);
	assert_int_equal(mtree_alloc_range(&mt, &at, ENTRY(2), 2, 0, ULONG_MAX, GFP_KERNEL),
			 -EBUSY);
	assert_int_equal(mtree_alloc_range(&mt, &at, ENTRY(2), 1, 601, ULONG_MAX, GFP_KERNEL),
			 -EBUSY);
	assert_int_equal(mtree_alloc_rrange(&mt, &at, ENTRY(2), 1, 0, 600, GFP_KERNEL), 0);
	assert_int_equal(at, 600);
	done(&mt);
}

/* All indices are one gap, and its ends can be allocated. */
static void gaps_at_the_ends(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_ALLOC_RANGE);
	unsigned long at = 77;
	MA_STATE(mas, &mt, 0, 0);

	(void)state;
	assert_int_equal(mas_empty_area(&mas, 0, ULONG_MAX, ULONG_MAX), 0);
	assert_int_equal(mas.index, 0);
	assert_int_equal(mas_empty_area_rev(&mas, 0, ULONG_MAX, ULONG_MAX), 0);
	assert_int_equal(mas.index, 1);
	assert_int_equal(mtree_alloc_rrange(&mt, &at, ENTRY(1), 1, 0, ULONG_MAX, GFP_KERNEL), 0);
	assert_int_equal(at, ULONG_MAX);
	assert_int_equal(mtree_alloc_range(&mt, &at, ENTRY(2), 1, 0, ULONG_MAX, GFP_KERNEL), 0);
	assert_int_equal(at, 0);
	assert_int_equal(mas_empty_area(&mas, 0, ULONG_MAX, ULONG_MAX - 1), 0);
	assert_int_equal(mas.index, 1);
	assert_int_equal(mas_empty_area(&mas, 0, ULONG_MAX, ULONG_MAX), -EBUSY);
	done(&mt);
}

/* A freed number is allocated again only after the numbers have wrapped around. */
static void alloc_cyclic_goes_on(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_ALLOC_RANGE);
	unsigned long at = 0, next = 0;

	(void)state;
	for (unsigned long i = 0; i < 1000; i++) {
		assert_int_equal(mtree_alloc_cyclic(&mt, &at, ENTRY(i), 1, 300, &next, GFP_KERNEL),
				 i && i % 300 == 0);
		assert_int_equal(at, 1 + i % 300);
		assert_ptr_equal(mtree_erase(&mt, at), ENTRY(i));
	}
	assert_int_equal(mtree_alloc_cyclic(&mt, &at, NULL, 1, 300, &next, GFP_KERNEL), -EINVAL);
	assert_int_equal(mtree_alloc_cyclic(&mt, &at, ENTRY(1), 5, 4, &next, GFP_KERNEL), -EINVAL);
	done(&mt);
}

/* A size that does not fit between the limits is a mistake, with an error of its own. */
static void windows_too_small(void **state)
{
	static const struct {
		unsigned long min, max, size;
		int error;
	} windows[] = {{0, 8, 9, 0},
		       {0, 8, 10, -EINVAL},
		       {0, 0, 2, -EINVAL},
		       {20, 29, 11, -EINVAL},
		       {1, ULONG_MAX, ULONG_MAX, -EBUSY},
		       {2, ULONG_MAX, ULONG_MAX, -EINVAL},
		       {100, 100, 1, -EBUSY},
		       {100, 100, 2, -EINVAL}};

	(void)state;
	for (size_t i = 0; i < 2 * sizeof(windows) / sizeof(windows[0]); i++) {
		unsigned long min = windows[i / 2].min, max = windows[i / 2].max, at = 77;
		unsigned long size = windows[i / 2].size;
		struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_LOCK_EXTERN);
		MA_STATE(mas, &mt, 0, 0);
		int error = windows[i / 2].error;

		store(&mt, 100, 100, ENTRY(1));
		if (i % 2) /* the tree has nodes, or only one leaf */
			fill(&mt, 60);
		if (i % 2 && error == 0)
			store(&mt, 0, 50, NULL);
		assert_int_equal(mas_empty_area(&mas, min, max, size), error);
		assert_int_equal(mas_error(&mas), error);
		assert_int_equal(mas_empty_area_rev(&mas, min, max, size), error);
		assert_int_equal(mas_error(&mas), error);
		if (error) {
			assert_int_equal(
				mtree_alloc_range(&mt, &at, ENTRY(2), size, min, max, GFP_KERNEL),
				error);
			assert_int_equal(
				mtree_alloc_rrange(&mt, &at, ENTRY(2), size, min, max, GFP_KERNEL),
				error);
			assert_int_equal(at, 77);
		}
		done(&mt);
	}
}

/* The number of leaves below the root that have a stored gap of 100 to 1000 indices. */
static unsigned int said_to_be_large(const struct maple_tree *mt)
{
	enode_t root = (enode_t)mt->ma_root;
	unsigned int n = 0;

	assert_int_equal(level_of(root), 1);
	for (unsigned int i = 0; i < ARANGE_SLOTS; i++)
		n += gaps(root)[i] >= 100 && gaps(root)[i] <= 1000;
	return n;
}

/* The stored length of gaps that stores have filled is too large, until a search fails. */
static void filled_gaps_are_noticed_by_searches(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_LOCK_EXTERN);
	MA_STATE(mas, &mt, 0, 0);
	unsigned long top = 10 * 60 + 9;

	(void)state;
	fill(&mt, 60);
	store(&mt, 200, 299, NULL);
	assert_int_equal(mas_empty_area(&mas, 0, top, 100), 0);
	assert_int_equal(mas.index, 200);
	store(&mt, 240, 259, ENTRY(1));
	assert_int_equal(said_to_be_large(&mt), 1);
	assert_int_equal(mas_empty_area(&mas, 9, 8, 1), -EINVAL);
	assert_int_equal(mas_error(&mas), -EINVAL);
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal((i ? mas_empty_area_rev : mas_empty_area)(&mas, 0, top, 100),
				 -EBUSY);
		assert_int_equal(said_to_be_large(&mt), 0);
		assert_int_equal(mas_empty_area(&mas, 0, top, 45), 0);
		assert_int_equal(mas.index, 260);
		assert_int_equal(mas_empty_area_rev(&mas, 0, top, 45), 0);
		assert_int_equal(mas.last, 304);
	}
	done(&mt);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alloc_range_forward),
		cmocka_unit_test(alloc_range_reverse),
		cmocka_unit_test(alloc_cyclic),
		cmocka_unit_test(alloc_cyclic_overflow),
		cmocka_unit_test(full_spaces),
		cmocka_unit_test(gaps_at_the_ends),
		cmocka_unit_test(alloc_cyclic_goes_on),
		cmocka_unit_test(windows_too_small),
		cmocka_unit_test(filled_gaps_are_noticed_by_searches),
	};

	provider_register();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
