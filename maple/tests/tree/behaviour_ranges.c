/* SPDX-License-Identifier: MIT */
/* Documented behaviour: storing, erasing and joining ranges, with one test per behaviour. */
#include "behaviour.h"

static void root_entry(void **state)
{
	DEFINE_MTREE(mt);

	(void)state;
	store(&mt, 0, 0, ENTRY(1));
	assert_int_equal(mt_height(&mt), 0);
	assert_ptr_equal(mtree_load(&mt, 0), ENTRY(1));
	assert_null(mtree_load(&mt, 1));
	store(&mt, 0, 0, NULL);
	assert_true(mtree_empty(&mt));
	/* An entry that looks like a node's address needs a node. */
	store(&mt, 0, 0, (void *)0x10002);
	assert_int_equal(mt_height(&mt), 1);
	assert_ptr_equal(mtree_load(&mt, 0), (void *)0x10002);
	done(&mt);
}

static void root_expand(void **state)
{
	DEFINE_MTREE(mt);

	(void)state;
	store(&mt, 0, 0, ENTRY(1));
	store(&mt, 3, 6, ENTRY(2));
	assert_int_equal(mt_height(&mt), 1);
	assert_ptr_equal(mtree_load(&mt, 0), ENTRY(1));
	assert_null(mtree_load(&mt, 2));
	assert_ptr_equal(mtree_load(&mt, 6), ENTRY(2));
	assert_null(mtree_load(&mt, 7));
	store(&mt, 0, ULONG_MAX, ENTRY(3));
	assert_ptr_equal(mtree_load(&mt, ULONG_MAX), ENTRY(3));
	store(&mt, 0, ULONG_MAX, NULL);
	assert_true(mtree_empty(&mt));
	done(&mt);
}

static void wrong_arguments(void **state)
{
	DEFINE_MTREE(mt);
	unsigned long at;

	(void)state;
	assert_int_equal(mtree_store_range(&mt, 5, 4, ENTRY(1), GFP_KERNEL), -EINVAL);
	assert_int_equal(mtree_insert_range(&mt, 5, 4, ENTRY(1), GFP_KERNEL), -EINVAL);
	assert_int_equal(mtree_store(&mt, 5, (void *)6, GFP_KERNEL), -EINVAL);
	assert_int_equal(mtree_store(&mt, 5, (void *)8, GFP_KERNEL), 0);
	assert_int_equal(mtree_alloc_range(&mt, &at, ENTRY(1), 1, 0, 9, GFP_KERNEL), -EINVAL);
	assert_ptr_equal(mtree_erase(&mt, 5), (void *)8);
	assert_true(mtree_empty(&mt));
}

static void insert_duplicate(void **state)
{
	DEFINE_MTREE(mt);

	(void)state;
	fill(&mt, 200);
	assert_int_equal(mtree_insert(&mt, 17, ENTRY(0), GFP_KERNEL), -EEXIST);
	assert_int_equal(mtree_insert_range(&mt, 0, 5, ENTRY(0), GFP_KERNEL), -EEXIST);
	assert_int_equal(mtree_insert_range(&mt, 10, 15, ENTRY(0), GFP_KERNEL), -EEXIST);
	assert_int_equal(mtree_insert_range(&mt, 0, ULONG_MAX, ENTRY(0), GFP_KERNEL), -EEXIST);
	assert_int_equal(mtree_insert(&mt, 17, (void *)6, GFP_KERNEL), -EINVAL); /* reserved */
	assert_int_equal(mtree_insert_range(&mt, 10, 14, ENTRY(900), GFP_KERNEL), 0);
	assert_ptr_equal(mtree_load(&mt, 10), ENTRY(900));
	assert_ptr_equal(mtree_load(&mt, 15), ENTRY(1));
	done(&mt);
}

/* A NULL joins the free ranges next to it, and a gap over several leaves is one range. */
static void null_expand(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_ALLOC_RANGE);
	MA_STATE(mas, &mt, 0, 0);

	(void)state;
	fill(&mt, 300);
	store(&mt, 1007, 1011, NULL);
	mas_set(&mas, 1009);
	assert_null(mas_walk(&mas));
	assert_int_equal(mas.index, 1007);
	assert_int_equal(mas.last, 1014);
	for (unsigned long at = 1007; at < 1500; at += 10)
		store(&mt, at, at + 3, NULL);
	for (unsigned long at = 1000; at < 1500; at++)
		mtree_erase(&mt, at);
	mas_set(&mas, 1300);
	assert_null(mas_walk(&mas));
	assert_int_equal(mas.index, 1000);
	assert_int_equal(mas.last, 1504);
	assert_int_equal(mas_empty_area(&mas, 0, ULONG_MAX, 500), 0);
	assert_int_equal(mas.index, 1000);
	assert_int_equal(mas_empty_area_rev(&mas, 0, 2000, 500), 0);
	assert_int_equal(mas.last, 1504);
	done(&mt);
}

/* One range over leaves of different parents: nodes are removed, and finally a level of them. */
static void spanning_store(void **state)
{
	for (unsigned int flags = 0; flags < 4; flags++) {
		struct maple_tree mt = MTREE_INIT(mt, flags);
		MA_STATE(mas, &mt, 0, 0);
		unsigned int height;

		(void)state;
		fill(&mt, 2000);
		height = mt_height(&mt);
		mas_set_range(&mas, 107, 15006);
		mtree_lock(&mt);
		assert_int_equal(mas_store_gfp(&mas, ENTRY(9999), GFP_KERNEL), 0);
		mtree_unlock(&mt);
		assert_int_equal(mas.store_type, wr_spanning_store);
		assert_int_equal(mt_validate(&mt), 0);
		assert_ptr_equal(mtree_load(&mt, 106), ENTRY(10));
		assert_ptr_equal(mtree_load(&mt, 107), ENTRY(9999));
		assert_ptr_equal(mtree_load(&mt, 15006), ENTRY(9999));
		assert_ptr_equal(mtree_load(&mt, 15007), ENTRY(1500));
		store(&mt, 20, 19980, NULL);
		assert_true(mt_height(&mt) < height);
		assert_int_equal(mt_validate(&mt), 0);
		assert_ptr_equal(mtree_load(&mt, 19), ENTRY(1));
		assert_ptr_equal(mtree_load(&mt, 19985), ENTRY(1998));
		done(&mt);
	}
}

/* Erasing entries one by one, upwards and downwards: leaves join, levels disappear, and finally the
 * root. */
static void collapsing_rebalance(void **state)
{
	for (unsigned int flags = 0; flags < 4; flags++) {
		struct maple_tree mt = MTREE_INIT(mt, flags);
		unsigned int height;

		(void)state;
		fill(&mt, 1000);
		height = mt_height(&mt);
		for (unsigned long i = 0; i < 500; i++) {
			assert_ptr_equal(mtree_erase(&mt, 10 * i + 7), ENTRY(i));
			assert_ptr_equal(mtree_erase(&mt, 10 * (999 - i) + 5), ENTRY(999 - i));
			assert_int_equal(mt_validate(&mt), 0);
			if (i == 490)
				assert_true(mt_height(&mt) < height);
		}
		assert_true(mtree_empty(&mt));
		done(&mt);
	}
}

/* How many nodes there are two levels below the root's. */
static unsigned int below_root(const struct maple_tree *mt)
{
	enode_t root = (enode_t)mt->ma_root;
	unsigned int n = 0;

	for (unsigned int i = 0; i <= end_of(node_of(root)); i++)
		n += end_of(node_of(child(root, i))) + 1;
	return n;
}

/* The last two nodes below the root join as soon as one can have all their children: a level less
 * for each lookup. */
static void last_two_join(void **state)
{
	for (unsigned int flags = 0; flags < 4; flags++) {
		struct maple_tree mt = MTREE_INIT(mt, flags);
		unsigned long n = 0, i = 0;
		unsigned int most;

		(void)state;
		for (; mt_height(&mt) < 3; n++)
			store(&mt, 10 * n + 5, 10 * n + 9, ENTRY(n));
		most = slots_of((enode_t)mt.ma_root);
		assert_int_equal(end_of(node_of((enode_t)mt.ma_root)), 1);
		for (; mt_height(&mt) == 3; i++) {
			assert_true(below_root(&mt) > most);
			assert_ptr_equal(mtree_erase(&mt, 10 * i + 7), ENTRY(i));
			assert_int_equal(mt_validate(&mt), 0);
		}
		assert_int_equal(mt_height(&mt), 2);
		assert_int_equal(end_of(node_of((enode_t)mt.ma_root)) + 1, most);
		for (; i < n; i++)
			assert_ptr_equal(mtree_load(&mt, 10 * i + 5), ENTRY(i));
		done(&mt);
	}
}

/* A leaf that is left with few slots joins its neighbour. */
static void deficient_node(void **state)
{
	DEFINE_MTREE(mt);
	MA_STATE(mas, &mt, 0, 0);
	bool joined = false;

	(void)state;
	fill(&mt, 24);
	mtree_lock(&mt);
	for (unsigned long i = 0; i < 12; i++) {
		mas_set(&mas, 10 * i + 5);
		assert_ptr_equal(mas_erase(&mas), ENTRY(i));
		joined |= mas.store_type == wr_rebalance;
		assert_int_equal(mt_validate(&mt), 0);
	}
	mtree_unlock(&mt);
	assert_true(joined);
	done(&mt);
}

/* Erasing an entry that does not exist; a tree that contains only NULLs is empty. */
static void store_null(void **state)
{
	DEFINE_MTREE(mt);

	(void)state;
	store(&mt, 0, ULONG_MAX, NULL);
	store(&mt, 5, 9, NULL);
	assert_null(mtree_erase(&mt, 7));
	assert_true(mtree_empty(&mt));
	store(&mt, 5, 9, ENTRY(1));
	store(&mt, 0, 7, NULL);
	assert_ptr_equal(mtree_load(&mt, 8), ENTRY(1));
	store(&mt, 8, ULONG_MAX, NULL);
	assert_true(mtree_empty(&mt));
	done(&mt);
}

/* Erasing at a free index leaves the state's range as it is, and no place in the tree. */
static void erase_in_gap(void **state)
{
	DEFINE_MTREE(mt);
	MA_STATE(mas, &mt, 0, 0);

	(void)state;
	fill(&mt, 400);
	for (unsigned long i = 0; i < 400; i += 3)
		mtree_erase(&mt, 10 * i + 5);
	mtree_lock(&mt);
	for (unsigned long at = 0; at < 4000; at++) {
		mas_set_range(&mas, at, at + 3);
		if (mtree_load(&mt, at))
			continue;
		assert_null(mas_erase(&mas));
		assert_int_equal(mas_error(&mas), 0);
		assert_int_equal(mas.index, at);
		assert_int_equal(mas.last, at + 3);
		assert_true(mas_is_start(&mas));
	}
	mtree_unlock(&mt);
	done(&mt);
}

/* -EEXIST for every range that shares an index with an entry, and nothing changes; 0 for the
 * others. */
static void overlapping_inserts(void **state)
{
	for (unsigned int flags = 0; flags < 4; flags++) {
		struct maple_tree mt = MTREE_INIT(mt, flags);

		(void)state;
		fill(&mt, 40);
		for (unsigned long first = 0; first < 60; first++)
			for (unsigned long last = first; last < 60; last++) {
				bool free = first % 10 + (last - first) < 5;
				int error = mtree_insert_range(&mt, first, last, ENTRY(900),
							       GFP_KERNEL);

				assert_int_equal(error, free ? 0 : -EEXIST);
				if (free)
					assert_ptr_equal(mtree_erase(&mt, first), ENTRY(900));
			}
		for (unsigned long i = 0; i < 40; i++)
			assert_ptr_equal(mtree_load(&mt, 10 * i + 5), ENTRY(i));
		assert_int_equal(mtree_insert(&mt, ULONG_MAX, ENTRY(1), GFP_KERNEL), 0);
		assert_int_equal(mtree_insert(&mt, ULONG_MAX, ENTRY(2), GFP_KERNEL), -EEXIST);
		done(&mt);
	}
}

/* One store over everything except both ends: levels disappear in one store, and grow again. */
static void spanning_store_changes_height(void **state)
{
	for (unsigned int flags = 0; flags < 4; flags++) {
		struct maple_tree mt = MTREE_INIT(mt, flags);

		(void)state;
		fill(&mt, 3000);
		assert_true(mt_height(&mt) >= 3);
		store(&mt, 6, 29996, ENTRY(9999));
		assert_int_equal(mt_height(&mt), 1);
		assert_int_equal(mt_validate(&mt), 0);
		assert_ptr_equal(mtree_load(&mt, 5), ENTRY(0));
		assert_ptr_equal(mtree_load(&mt, 6), ENTRY(9999));
		assert_ptr_equal(mtree_load(&mt, 29997), ENTRY(2999));
		fill(&mt, 3000);
		assert_true(mt_height(&mt) >= 3);
		done(&mt);
	}
}

/* Values that cannot be entries, and values that can. */
static void reserved_entries(void **state)
{
	DEFINE_MTREE(mt);

	(void)state;
	for (uintptr_t value = 0; value < 4096 + 64; value++) {
		bool zero = xa_is_zero((void *)value);
		bool reserved = (value & 3) == 2 && value < 4096 && !zero;
		int error = mtree_store(&mt, 3, (void *)value, GFP_KERNEL);

		assert_int_equal(error, reserved ? -EINVAL : 0);
		if (!reserved)
			assert_ptr_equal(mtree_load(&mt, 3), zero ? NULL : (void *)value);
	}
	assert_int_equal(mtree_insert(&mt, 9, (void *)6, GFP_KERNEL), -EINVAL);
	done(&mt);
}

/* Stores through another state make this one stale, even if it is preallocated; it keeps its nodes.
 */
static void pause_after_preallocation(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_ALLOC_RANGE);
	MA_STATE(mas, &mt, 0, 0);
	MA_STATE(other, &mt, 0, 0);

	(void)state;
	mtree_lock(&mt);
	for (unsigned long i = 0; i < 4000; i++) {
		unsigned long at = i * 7919 % 600;

		mas_set(&mas, at);
		assert_int_equal(mas_preallocate(&mas, ENTRY(i), GFP_KERNEL), 0);
		for (unsigned long j = 0; j < 12; j++) {
			unsigned long from = (at + j * i) % 600;

			mas_set_range(&other, from, from + i % 40);
			mas_store_gfp(&other, j % 3 ? ENTRY(j) : NULL, GFP_KERNEL);
			assert_int_equal(mas_error(&other), 0);
		}
		mas_pause(&mas);
		assert_int_equal(mas_store_gfp(&mas, ENTRY(i), GFP_KERNEL), 0);
		assert_ptr_equal(mtree_load(&mt, at), ENTRY(i));
		assert_int_equal(mt_validate(&mt), 0);
	}
	mtree_unlock(&mt);
	done(&mt);
}

static int same(void **entries, unsigned int n, void *arg)
{
	(void)entries, (void)n, (void)arg;
	return 0;
}

static void nothing(void **entries, unsigned int n, void *arg)
{
	(void)entries, (void)n, (void)arg;
}

/* XA_ZERO_ENTRY takes up its range, but reads as NULL: in a tree without nodes, in one with nodes,
 * in a copy. */
static void zero_entries(void **state)
{
	static const struct mt_dup_ops ops = {same, nothing};
	DEFINE_MTREE(mt);
	DEFINE_MTREE(copy);
	DEFINE_MTREE(other);
	MA_STATE(mas, &mt, 0, 0);
	unsigned long index = 0;
	unsigned int n = 0;
	void *entry;

	(void)state;
	assert_int_equal(mtree_store(&mt, 5, XA_ZERO_ENTRY, GFP_KERNEL), 0);
	assert_int_equal(mtree_insert(&mt, 7, XA_ZERO_ENTRY, GFP_KERNEL), 0);
	assert_int_equal(mtree_insert(&mt, 5, XA_ZERO_ENTRY, GFP_KERNEL), -EEXIST);
	assert_int_equal(mtree_insert(&mt, 7, ENTRY(1), GFP_KERNEL), -EEXIST);
	assert_null(mtree_load(&mt, 5));
	assert_null(mtree_load(&mt, 7));
	assert_null(mt_find(&mt, &index, ULONG_MAX));
	assert_int_equal(index, 0);
	mtree_lock(&mt);
	assert_true(xa_is_zero(mas_find(&mas, ULONG_MAX)));
	assert_int_equal(mas.index, 5);
	assert_true(xa_is_zero(mas_find(&mas, ULONG_MAX)));
	assert_int_equal(mas.index, 7);
	mtree_unlock(&mt);
	assert_int_equal(mtree_store(&mt, 5, ENTRY(1), GFP_KERNEL), 0);
	assert_ptr_equal(mtree_load(&mt, 5), ENTRY(1));
	mtree_destroy(&mt);
	mas_set(&mas, 0);
	mtree_lock(&mt);
	assert_int_equal(mas_store_gfp(&mas, XA_ZERO_ENTRY, GFP_KERNEL), 0);
	assert_null(mtree_load(&mt, 0));
	mas_set(&mas, 0);
	assert_true(xa_is_zero(mas_walk(&mas)));
	mtree_unlock(&mt);
	fill(&mt, 50);
	mtree_lock(&mt);
	for (unsigned long i = 0; i < 50; i += 2) {
		mas_set_range(&mas, 10 * i + 5, 10 * i + 9);
		assert_int_equal(mas_preallocate(&mas, XA_ZERO_ENTRY, GFP_KERNEL), 0);
		mas_store_prealloc(&mas, XA_ZERO_ENTRY);
		assert_null(mtree_load(&mt, 10 * i + 7));
	}
	mas_set(&mas, 0);
	mas_for_each(&mas, entry, ULONG_MAX) n += xa_is_zero(entry);
	assert_int_equal(n, 26);
	mtree_unlock(&mt);
	mt_for_each(&mt, entry, index, ULONG_MAX)
	{
		assert_false(xa_is_zero(entry));
		n--;
	}
	assert_int_equal(n, 1);
	assert_int_equal(mtree_insert(&mt, 5, ENTRY(1), GFP_KERNEL), -EEXIST);
	assert_int_equal(mtree_dup(&mt, &copy, GFP_KERNEL), 0);
	mtree_lock(&mt);
	mtree_lock(&other);
	assert_int_equal(__mt_dup_each(&mt, &other, &ops, NULL, GFP_KERNEL), 0);
	mtree_unlock(&other);
	mtree_unlock(&mt);
	assert_null(mtree_load(&copy, 5));
	assert_ptr_equal(mtree_load(&other, 15), ENTRY(1));
	assert_true(xa_is_zero(mtree_erase(&mt, 5)));
	assert_int_equal(mtree_insert(&mt, 5, ENTRY(1), GFP_KERNEL), 0);
	assert_int_equal(mt_validate(&copy), 0);
	assert_int_equal(mt_validate(&other), 0);
	mtree_destroy(&copy);
	mtree_destroy(&other);
	done(&mt);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(root_entry),
		cmocka_unit_test(root_expand),
		cmocka_unit_test(wrong_arguments),
		cmocka_unit_test(insert_duplicate),
		cmocka_unit_test(null_expand),
		cmocka_unit_test(spanning_store),
		cmocka_unit_test(collapsing_rebalance),
		cmocka_unit_test(last_two_join),
		cmocka_unit_test(deficient_node),
		cmocka_unit_test(store_null),
		cmocka_unit_test(erase_in_gap),
		cmocka_unit_test(overlapping_inserts),
		cmocka_unit_test(spanning_store_changes_height),
		cmocka_unit_test(reserved_entries),
		cmocka_unit_test(zero_entries),
		cmocka_unit_test(pause_after_preallocation),
	};

	provider_register();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
