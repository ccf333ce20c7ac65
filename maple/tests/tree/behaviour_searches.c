/* SPDX-License-Identifier: MIT */
/* Documented behaviour: iteration, the next and the previous entry, with one test per behaviour. */
#include "behaviour.h"

static void iteration(void **state)
{
	DEFINE_MTREE(mt);
	MA_STATE(mas, &mt, 0, 0);
	unsigned long index = 0, n = 0;
	void *entry;

	(void)state;
	fill(&mt, 500);
	mas_for_each(&mas, entry, ULONG_MAX)
	{
		assert_ptr_equal(entry, ENTRY(n));
		assert_int_equal(mas.index, 10 * n + 5);
		assert_int_equal(mas.last, 10 * n + 9);
		n++;
		if (n % 7 == 0)
			mas_pause(&mas);
	}
	assert_int_equal(n, 500);
	mas_set(&mas, ULONG_MAX);
	mas_for_each_rev(&mas, entry, 0)
	{
		assert_ptr_equal(entry, ENTRY(--n));
		if (n % 7 == 0)
			mas_pause(&mas);
	}
	assert_int_equal(n, 0);
	mt_for_each(&mt, entry, index, 2000)
	{
		assert_ptr_equal(entry, ENTRY(n++));
		assert_int_equal(index, 10 * n);
	}
	assert_int_equal(n, 200);
	/* The last of all indices: the continued search ends there. */
	store(&mt, ULONG_MAX, ULONG_MAX, ENTRY(1));
	index = ULONG_MAX;
	assert_ptr_equal(mt_find(&mt, &index, ULONG_MAX), ENTRY(1));
	assert_int_equal(index, 0);
	assert_null(mt_find_after(&mt, &index, ULONG_MAX));
	done(&mt);
}

/* Ranges may be stored and erased during an iteration. */
static void iteration_with_changes(void **state)
{
	for (unsigned int flags = 0; flags < 4; flags++) {
		struct maple_tree mt = MTREE_INIT(mt, flags);
		MA_STATE(mas, &mt, 0, 0);
		unsigned long n = 0;
		void *entry;

		(void)state;
		fill(&mt, 300);
		mtree_lock(&mt);
		mas_for_each(&mas, entry, ULONG_MAX)
		{
			assert_ptr_equal(entry, ENTRY(n));
			if (n % 3 == 0)
				mas_store_gfp(&mas, NULL, GFP_KERNEL);
			else if (n % 3 == 1)
				mas_store_gfp(&mas, ENTRY(1000 + n), GFP_KERNEL);
			n++;
		}
		mtree_unlock(&mt);
		assert_int_equal(n, 300);
		for (n = 0; n < 300; n++)
			assert_ptr_equal(mtree_load(&mt, 10 * n + 5),
					 n % 3 == 0 ? NULL : ENTRY(n % 3 == 1 ? 1000 + n : n));
		done(&mt);
	}
}

static void previous_and_next(void **state)
{
	DEFINE_MTREE(mt);
	MA_STATE(mas, &mt, 0, 0);

	(void)state;
	fill(&mt, 100);
	assert_ptr_equal(mt_next(&mt, 7, ULONG_MAX), ENTRY(1));
	assert_ptr_equal(mt_next(&mt, 3, ULONG_MAX), ENTRY(0));
	assert_null(mt_next(&mt, 7, 14));
	assert_ptr_equal(mt_prev(&mt, 17, 0), ENTRY(0));
	assert_null(mt_prev(&mt, 17, 10));
	assert_null(mt_prev(&mt, 7, 0));
	mas_set(&mas, 50);
	assert_ptr_equal(mas_next(&mas, ULONG_MAX), ENTRY(5));
	assert_ptr_equal(mas_prev(&mas, 0), ENTRY(4));
	assert_null(mas_prev_range(&mas, 0));
	assert_int_equal(mas.index, 40);
	assert_int_equal(mas.last, 44);
	assert_ptr_equal(mas_next_range(&mas, ULONG_MAX), ENTRY(4));
	done(&mt);
}

/* --- order ----------------------------------------------------------------------------------- */

/* The nodes of a subtree, each before its children, these from left to right. */
static unsigned int visit(enode_t e, enode_t *nodes, unsigned int n)
{
	nodes[n++] = e;
	for (unsigned int i = 0; level_of(e) && i <= end_of(node_of(e)); i++)
		n = visit(child(e, i), nodes, n);
	return n;
}

/* A copy has the same nodes in preorder, none of them shared, and as many as the cache counts. */
static void dfs_preorder(void **state)
{
	static enode_t nodes[4096], copies[4096];

	for (unsigned int flags = 0; flags < 4; flags++) {
		struct maple_tree mt = MTREE_INIT(mt, flags), to = MTREE_INIT(to, flags);
		struct kmem_cache_stats stats;
		unsigned int n;

		(void)state;
		fill(&mt, 4000);
		n = visit((enode_t)mt.ma_root, nodes, 0);
		kvfree_rcu_barrier_on_cache(node_cache());
		assert_int_equal(kmem_cache_stats(node_cache(), &stats), 0);
		assert_int_equal(stats.objects_in_use, n);
		assert_int_equal(mtree_dup(&mt, &to, GFP_KERNEL), 0);
		assert_int_equal(visit((enode_t)to.ma_root, copies, 0), n);
		for (unsigned int i = 0; i < n; i++) {
			const struct maple_node *a = node_of(nodes[i]), *b = node_of(copies[i]);

			assert_ptr_not_equal(a, b);
			assert_int_equal(level_of(nodes[i]), level_of(copies[i]));
			assert_int_equal(end_of(a), end_of(b));
			assert_memory_equal(pivots(nodes[i]), pivots(copies[i]),
					    end_of(a) * sizeof(unsigned long));
			if (i && level_of(nodes[i]) == level_of(nodes[i - 1]))
				assert_int_equal(level_of(nodes[i]), 0); /* leaves follow leaves */
		}
		mtree_destroy(&to);
		done(&mt);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(iteration),
		cmocka_unit_test(iteration_with_changes),
		cmocka_unit_test(previous_and_next),
		cmocka_unit_test(dfs_preorder),
	};

	provider_register();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
