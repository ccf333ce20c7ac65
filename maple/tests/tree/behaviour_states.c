/* SPDX-License-Identifier: MIT */
/* What a state must not rely on: leaves that no longer exist, and half of a store. One test per
 * case. */
#include "behaviour.h"

/* After a pause the state must not use the leaf for which nodes were prepared: it may no longer
 * exist. */
static void pause_after_preallocation(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, 0);
	MA_STATE(mas, &mt, 507, 509);

	(void)state;
	fill(&mt, 100);
	mtree_lock(&mt);
	assert_int_equal(mas_preallocate(&mas, ENTRY(1), GFP_KERNEL), 0);
	assert_non_null(mas.prepared);
	mas_pause(&mas);
	assert_null(mas.prepared);
	mtree_unlock(&mt);
	store(&mt, 0, ULONG_MAX, NULL);
	mtree_lock(&mt);
	assert_int_equal(mas_store_gfp(&mas, ENTRY(1), GFP_KERNEL), 0);
	mtree_unlock(&mt);
	assert_null(mtree_load(&mt, 506));
	assert_ptr_equal(mtree_load(&mt, 509), ENTRY(1));
	done(&mt);
}

/* A reader arrives while the last slot is being divided: it sees that slot whole, and none after
 * it. */
static void look_during_append(void **state)
{
	for (unsigned long n = 2; n < LEAF_SLOTS - 1; n++) {
		struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_USE_RCU);
		MA_STATE(mas, &mt, 500, 500);
		struct maple_node *leaf;

		(void)state;
		for (unsigned long i = 0; i < n; i++)
			store(&mt, i, i, ENTRY(i));
		leaf = node_of((enode_t)mt.ma_root);
		assert_int_equal(end_of(leaf), n);
		leaf->range.pivot[n] = 99; /* the first word that the writer stores */
		assert_null(mas_walk(&mas));
		assert_int_equal(mas.index, n);
		assert_int_equal(mas.last, ULONG_MAX);
		assert_ptr_equal(mas.at, mas.stop);
		assert_null(mas_find(&mas, ULONG_MAX));
		leaf->range.pivot[n] = ULONG_MAX;
		done(&mt);
	}
}

/* The border of the leaf's outermost slot moves while a state is next to it: the slot is not
 * skipped. */
static void look_while_border_moves(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_USE_RCU);
	MA_STATE(mas, &mt, 0, 0);
	unsigned long *pivot;
	void **slot;
	struct path path;
	unsigned int end;

	(void)state;
	for (unsigned long i = 0; i < 100; i++)
		store(&mt, 4 * i, 4 * i + 3, ENTRY(i));
	path_walk(&path, &mt, 200);
	pivot = pivots(path.at[0].e);
	slot = slots(path.at[0].e);
	end = end_of(node_of(path.at[0].e));
	assert_in_range(end, 3, 15);
	mas_set(&mas, pivot[0] + 1);
	assert_ptr_equal(mas_walk(&mas), slot[1]);
	pivot[0]++; /* the first word that the writer stores; meta comes later */
	assert_ptr_equal(mas_find_rev(&mas, 0), slot[0]);
	assert_int_equal(mas.last, pivot[0]--);
	mas_set(&mas, pivot[end - 1]);
	assert_ptr_equal(mas_walk(&mas), slot[end - 1]);
	pivot[end - 1]--;
	assert_ptr_equal(mas_find(&mas, ULONG_MAX), slot[end]);
	assert_int_equal(mas.index, ++pivot[end - 1]);
	done(&mt);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pause_after_preallocation),
		cmocka_unit_test(look_during_append),
		cmocka_unit_test(look_while_border_moves),
	};

	provider_register();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
