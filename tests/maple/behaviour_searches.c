/* SPDX-License-Identifier: MIT */
/* Iteration, the next and the previous entry, and the states of a search: what is documented, one test for each behaviour. */
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
	/* The last index of all: the search that goes on ends there. */
	store(&mt, ULONG_MAX, ULONG_MAX, ENTRY(1));
	index = ULONG_MAX;
	assert_ptr_equal(mt_find(&mt, &index, ULONG_MAX), ENTRY(1));
	assert_int_equal(index, 0);
	assert_null(mt_find_after(&mt, &index, ULONG_MAX));
	done(&mt);
}

/* Ranges may be stored and erased while a state goes over them. */
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

/* What each call does in each state. */
static void states(void **state)
{
	DEFINE_MTREE(mt);
	MA_STATE(mas, &mt, 0, 0);

	(void)state;
	assert_int_equal(mas.status, ma_start);
	assert_null(mas_find(&mas, ULONG_MAX));
	assert_int_equal(mas.status, ma_overflow);
	mas_set(&mas, 0);
	assert_null(mas_walk(&mas));
	assert_int_equal(mas.status, ma_root);
	assert_int_equal(mas.last, ULONG_MAX);
	store(&mt, 0x1000, 0x1500, ENTRY(1));
	store(&mt, 0x2000, 0x2500, ENTRY(2));
	mas_set(&mas, 0);
	assert_ptr_equal(mas_find(&mas, ULONG_MAX), ENTRY(1));
	assert_true(mas_is_active(&mas));
	assert_null(mas_find(&mas, 0x1fff));
	assert_int_equal(mas.status, ma_overflow);
	assert_int_equal(mas.index, 0x1000);
	assert_ptr_equal(mas_find(&mas, 0x2000), ENTRY(2)); /* a wider limit: it goes on */
	assert_null(mas_next(&mas, ULONG_MAX));
	assert_int_equal(mas.status, ma_overflow);
	assert_ptr_equal(mas_prev(&mas, 0), ENTRY(2)); /* the end left backwards */
	assert_ptr_equal(mas_prev(&mas, 0), ENTRY(1));
	assert_null(mas_prev(&mas, 0));
	assert_int_equal(mas.status, ma_underflow);
	assert_ptr_equal(mas_next(&mas, ULONG_MAX), ENTRY(1));
	mas_pause(&mas);
	assert_int_equal(mas.status, ma_pause);
	assert_ptr_equal(mas_find(&mas, ULONG_MAX), ENTRY(2));
	mas_pause(&mas);
	assert_ptr_equal(mas_find_rev(&mas, 0), ENTRY(1));
	mas_set(&mas, 0x1800);
	assert_ptr_equal(mas_find_rev(&mas, 0x1500), ENTRY(1));
	mas_set(&mas, 0x1800);
	assert_null(mas_find_rev(&mas, 0x1501));
	mas_set_range(&mas, 9, 8);
	mtree_lock(&mt);
	assert_int_equal(mas_store_gfp(&mas, ENTRY(3), GFP_KERNEL), -EINVAL);
	mtree_unlock(&mt);
	assert_true(mas_is_err(&mas));
	assert_int_equal(mas_error(&mas), -EINVAL);
	assert_null(mas_find(&mas, ULONG_MAX));
	mas_reset(&mas);
	assert_false(mas_is_err(&mas));
	done(&mt);
}

/* --- what each call does in each state -------------------------------------------------------- */

enum from {
	FROM_START,
	FROM_ACTIVE,
	FROM_PAUSE,
	FROM_OVERFLOW,
	FROM_UNDERFLOW,
	FROM_ERROR,
	NR_FROM
};

/* A state at the second of three entries. */
static void bring(struct ma_state *mas, enum from from)
{
	mas_set_range(mas, 0x2000, 0x2500);
	if (from == FROM_ERROR) {
		mas_set_range(mas, 0x2000, 0x1fff);
		mas_lock(mas);
		assert_int_equal(mas_store_gfp(mas, ENTRY(9), GFP_KERNEL), -EINVAL);
		mas_unlock(mas);
		return;
	}
	if (from != FROM_START)
		assert_ptr_equal(mas_walk(mas), ENTRY(2));
	if (from == FROM_PAUSE)
		mas_pause(mas);
	else if (from == FROM_OVERFLOW)
		assert_null(mas_next(mas, 0x2500));
	else if (from == FROM_UNDERFLOW)
		assert_null(mas_prev(mas, 0x2000));
}

static void *walk(struct ma_state *mas, unsigned long limit)
{
	(void)limit;
	return mas_walk(mas);
}

/* 1 2 3: that entry; < >: the gap before, after the second; -: NULL, and the state stays. */
static void state_matrix(void **state)
{
	static const struct {
		void *(*call)(struct ma_state *mas, unsigned long limit);
		unsigned long limit;
		char wanted[NR_FROM +
			    1]; /* from start, active, pause, overflow, underflow, error */
	} rows[] = {
		{walk, 0, "222222"},
		{mas_find, ULONG_MAX, "23332-"},
		{mas_find_range, ULONG_MAX, "2>>>2-"},
		{mas_find_rev, 0, "21121-"},
		{mas_find_range_rev, 0, "2<<2<-"},
		{mas_next, ULONG_MAX, "33332-"},
		{mas_next_range, ULONG_MAX, ">>>>2-"},
		{mas_prev, 0, "11121-"},
		{mas_prev_range, 0, "<<<2<-"},
	};
	DEFINE_MTREE(mt);

	(void)state;
	for (unsigned long i = 1; i <= 3; i++)
		store(&mt, i * 0x1000, i * 0x1000 + 0x500, ENTRY(i));
	for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++)
		for (enum from from = FROM_START; from < NR_FROM; from++) {
			char wanted = rows[row].wanted[from];
			MA_STATE(mas, &mt, 0, 0);
			unsigned long n;
			void *entry;

			bring(&mas, from);
			entry = rows[row].call(&mas, rows[row].limit);
			if (wanted == '-') {
				assert_null(entry);
				assert_true(mas_is_err(&mas));
				continue;
			}
			assert_int_equal(mas.status, ma_active);
			n = wanted == '<' ? 1 : wanted == '>' ? 2 : (unsigned long)(wanted - '0');
			if (wanted == '<' || wanted == '>') {
				assert_null(entry);
				assert_int_equal(mas.index, n * 0x1000 + 0x501);
				assert_int_equal(mas.last, n * 0x1000 + 0xfff);
			} else {
				assert_ptr_equal(entry, ENTRY(n));
				assert_int_equal(mas.index, n * 0x1000);
				assert_int_equal(mas.last, n * 0x1000 + 0x500);
			}
		}
	done(&mt);
}

/* A tree without a node: nothing, or one entry at index 0. */
static void states_without_node(void **state)
{
	DEFINE_MTREE(mt);
	MA_STATE(mas, &mt, 0, 0);

	(void)state;
	assert_null(mas_prev(&mas, 0));
	assert_int_equal(mas.status, ma_underflow);
	mas_set(&mas, 7);
	assert_null(mas_next(&mas, ULONG_MAX));
	assert_int_equal(mas.status, ma_overflow);
	store(&mt, 0, 0, ENTRY(1));
	mas_set(&mas, 0);
	assert_ptr_equal(mas_find(&mas, 0), ENTRY(1));
	assert_int_equal(mas.status, ma_root);
	assert_null(mas_find(&mas, ULONG_MAX));
	assert_int_equal(mas.status, ma_overflow);
	mas_set(&mas, 0);
	assert_ptr_equal(mas_walk(&mas), ENTRY(1));
	assert_null(mas_next_range(&mas, ULONG_MAX));
	assert_int_equal(mas.index, 1);
	assert_int_equal(mas.last, ULONG_MAX);
	assert_ptr_equal(mas_prev(&mas, 0), ENTRY(1));
	mas_set(&mas, 500);
	assert_ptr_equal(mas_find_rev(&mas, 0), ENTRY(1));
	done(&mt);
}

/* Limits on the wrong side, and the ends of all indices. */
static void limits(void **state)
{
	DEFINE_MTREE(mt);
	MA_STATE(mas, &mt, 500, 500);

	(void)state;
	store(&mt, 0, 9, ENTRY(1));
	store(&mt, ULONG_MAX - 9, ULONG_MAX, ENTRY(2));
	assert_null(mas_find(&mas, 499));
	assert_int_equal(mas.status, ma_overflow);
	mas_set(&mas, 500);
	assert_null(mas_find_rev(&mas, 501));
	assert_int_equal(mas.status, ma_underflow);
	mas_set(&mas, ULONG_MAX);
	assert_ptr_equal(mas_walk(&mas), ENTRY(2));
	mas_pause(&mas);
	assert_null(mas_find(&mas, ULONG_MAX));
	assert_int_equal(mas.status, ma_overflow);
	mas_set(&mas, 0);
	assert_ptr_equal(mas_walk(&mas), ENTRY(1));
	mas_pause(&mas);
	assert_null(mas_find_rev(&mas, 0));
	assert_int_equal(mas.status, ma_underflow);
	assert_null(mt_next(&mt, ULONG_MAX, ULONG_MAX));
	assert_null(mt_prev(&mt, 0, 0));
	assert_ptr_equal(mt_next(&mt, 0, ULONG_MAX - 9), ENTRY(2));
	assert_null(mt_next(&mt, 0, ULONG_MAX - 10));
	assert_ptr_equal(mt_prev(&mt, ULONG_MAX, 9), ENTRY(1));
	assert_null(mt_prev(&mt, ULONG_MAX, 10));
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
		cmocka_unit_test(states),
		cmocka_unit_test(state_matrix),
		cmocka_unit_test(states_without_node),
		cmocka_unit_test(limits),
		cmocka_unit_test(dfs_preorder),
	};

	provider_register();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
