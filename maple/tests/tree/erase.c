/* SPDX-License-Identifier: MIT */
/* An erase cannot fail: what it does when it is refused nodes, and what the tree is afterwards. */
#include "behaviour.h"
#include "kit/random.h"
#include "kit/refuse_nodes.h"

enum {
	RANGES = 200,
	MANY = 3000
};

static unsigned long at_of(unsigned int i)
{
	return 10 * (unsigned long)i + 5;
}

/* --- the calls that erase one range ---------------------------------------------------------- */

static void *by_mtree_erase(struct maple_tree *mt, unsigned long at)
{
	return mtree_erase(mt, at + 2);
}

static void *by_mas_erase(struct maple_tree *mt, unsigned long at)
{
	MA_STATE(mas, mt, at + 4, at + 4);
	void *entry;

	mtree_lock(mt);
	entry = mas_erase(&mas);
	assert_int_equal(mas_error(&mas), 0);
	mas_set(&mas, at);
	assert_null(mas_walk(&mas));
	mtree_unlock(mt);
	return entry;
}

static void *by_mas_store(struct maple_tree *mt, unsigned long at)
{
	MA_STATE(mas, mt, at, at + 4);
	void *entry;

	mtree_lock(mt);
	entry = mas_store(&mas, NULL);
	assert_int_equal(mas_error(&mas), 0);
	assert_false(mas_nomem(&mas, GFP_KERNEL));
	mtree_unlock(mt);
	return entry;
}

static void *by_store_range(struct maple_tree *mt, unsigned long at)
{
	void *entry = mtree_load(mt, at);

	store(mt, at, at + 4, NULL);
	return entry;
}

static void *(*const erases[])(struct maple_tree *mt, unsigned long at) = {
	by_mtree_erase, by_mas_erase, by_mas_store, by_store_range};

/* --- without memory -------------------------------------------------------------------------- */

enum order {
	UPWARDS,
	DOWNWARDS,
	AT_RANDOM,
	ORDERS
};

static void set_order(unsigned int *numbers, unsigned int n, enum order order)
{
	uint64_t seed = 7;

	for (unsigned int i = 0; i < n; i++)
		numbers[i] = order == DOWNWARDS ? n - 1 - i : i;
	for (unsigned int i = n; order == AT_RANDOM && i-- > 1;) {
		unsigned int j = random_below(&seed, i + 1), number = numbers[i];

		numbers[i] = numbers[j];
		numbers[j] = number;
	}
}

/* By each call, in each order: no entry stays, and the last erase leaves an empty tree. */
static void refuse_every_node(void **state)
{
	unsigned int numbers[RANGES];

	(void)state;
	for (unsigned int i = 0; i < 4 * 4 * ORDERS; i++) {
		struct maple_tree mt = MTREE_INIT(mt, i % 4);

		fill(&mt, RANGES);
		set_order(numbers, RANGES, i / 16);
		refuse_all = true;
		for (unsigned int j = 0; j < RANGES; j++) {
			unsigned long at = at_of(numbers[j]);

			assert_ptr_equal(erases[i / 4 % 4](&mt, at), ENTRY(numbers[j]));
			assert_null(mtree_load(&mt, at));
			assert_int_equal(mt_validate(&mt), 0);
		}
		refuse_all = false;
		assert_true(mtree_empty(&mt));
		assert_int_equal(mt_height(&mt), 0);
		done(&mt);
	}
}

static void must_not_wait(void)
{
	fail_msg("an erase waits for nodes");
}

/* It asks for nodes, but does not wait for them: the caller has the lock. */
static void no_wait(void **state)
{
	DEFINE_MTREE(mt);

	(void)state;
	fill(&mt, RANGES);
	meanwhile = must_not_wait;
	for (unsigned int i = 0; i < RANGES; i++)
		assert_ptr_equal(mtree_erase(&mt, at_of(i)), ENTRY(i));
	meanwhile = NULL;
	done(&mt);
}

/* Erase all ranges but one of `keep`, from the first leaf to the last. */
static void erase_most(struct maple_tree *mt, unsigned int n, unsigned int keep)
{
	for (unsigned int i = 0; i < n; i++)
		if (i % keep != keep / 2)
			assert_ptr_equal(mtree_erase(mt, at_of(i)), ENTRY(i));
	assert_int_equal(mt_validate(mt), 0);
}

static unsigned long nodes_in_use(void)
{
	struct kmem_cache_stats stats;

	kvfree_rcu_barrier_on_cache(node_cache());
	assert_int_equal(kmem_cache_stats(node_cache(), &stats), 0);
	return stats.objects_in_use;
}

/* Every gap is whole, however many leaves without an entry it is in, and can be found and used. */
static void gaps_over_empty_leaves(void **state)
{
	for (unsigned int flags = 0; flags < 4; flags++) {
		struct maple_tree mt = MTREE_INIT(mt, flags);
		unsigned long after = 0, start;
		MA_STATE(mas, &mt, 0, 0);
		void *entry;

		(void)state;
		fill(&mt, MANY);
		refuse_all = true;
		erase_most(&mt, MANY, 100);
		mtree_lock(&mt);
		for (unsigned int i = 50; i < MANY; i += 100) {
			mas_set(&mas, at_of(i) - 203);
			assert_null(mas_walk(&mas));
			assert_int_equal(mas.index, after);
			assert_int_equal(mas.last, at_of(i) - 1);
			assert_ptr_equal(mas_find(&mas, ULONG_MAX), ENTRY(i));
			assert_null(mas_prev_range(&mas, 0));
			assert_int_equal(mas.index, after);
			after = at_of(i) + 5;
		}
		mas_set(&mas, ULONG_MAX);
		assert_null(mas_walk(&mas));
		assert_int_equal(mas.index, after);
		mas_set(&mas, 0);
		after = 0;
		mas_for_each(&mas, entry, ULONG_MAX) after++;
		assert_int_equal(after, MANY / 100);
		mtree_unlock(&mt);
		refuse_all = false;
		if (flags & MT_FLAGS_ALLOC_RANGE) {
			assert_int_equal(mtree_alloc_range(&mt, &start, ENTRY(1), 995, 10, 20000,
							   GFP_KERNEL),
					 0);
			assert_int_equal(start, at_of(50) + 5);
			assert_int_equal(mtree_alloc_rrange(&mt, &start, ENTRY(2), 995, 10,
							    at_of(350) + 50, GFP_KERNEL),
					 0);
			assert_int_equal(start, at_of(250) + 5);
			assert_int_equal(mtree_alloc_rrange(&mt, &start, ENTRY(3), 996, 10, 20000,
							    GFP_KERNEL),
					 -EBUSY);
		}
		done(&mt);
	}
}

bool __real_path_next(struct path *path, unsigned int level);
bool __wrap_path_next(struct path *path, unsigned int level);
static unsigned int leaves_over;

bool __wrap_path_next(struct path *path, unsigned int level)
{
	leaves_over++;
	return __real_path_next(path, level);
}

unsigned long __real_free_over(const struct maple_tree *mt, unsigned long index);
unsigned long __wrap_free_over(const struct maple_tree *mt, unsigned long index);
static unsigned int looks_over;

/* Looks at each empty leaf from the index on. */
unsigned long __wrap_free_over(const struct maple_tree *mt, unsigned long index)
{
	looks_over++;
	return __real_free_over(mt, index);
}

/* An erase between empty leaves corrects the gap of each, but does not go over all of them for
 * each. */
static void gaps_in_one_pass(void **state)
{
	for (unsigned int order = UPWARDS; order <= DOWNWARDS; order++) {
		struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_ALLOC_RANGE);
		unsigned int numbers[RANGES];

		(void)state;
		fill(&mt, RANGES);
		set_order(numbers, RANGES, order);
		refuse_all = true;
		for (unsigned int i = 0; i < RANGES; i++) {
			looks_over = 0;
			assert_ptr_equal(mtree_erase(&mt, at_of(numbers[i])), ENTRY(numbers[i]));
			assert_in_range(looks_over, 0, 2);
		}
		refuse_all = false;
		done(&mt);
	}
}

enum {
	FAR = 1000000 /* where the ranges behind a gap begin */
};

/* A row of leaves without an entry, and behind it a long gap and more ranges. */
static unsigned long make_row(struct maple_tree *mt)
{
	unsigned long nodes;

	mt_init_flags(mt, MT_FLAGS_ALLOC_RANGE);
	fill(mt, MANY);
	for (unsigned long i = 0; i < RANGES; i++)
		store(mt, FAR + 10 * i, FAR + 10 * i, ENTRY(i));
	nodes = nodes_in_use();
	refuse_all = true;
	for (unsigned int i = 20; i < MANY; i++)
		assert_ptr_equal(mtree_erase(mt, at_of(i)), ENTRY(i));
	refuse_all = false;
	assert_int_equal(nodes_in_use(), nodes);
	return nodes;
}

/* Fails, and goes over no leaf more than a few times. */
static void search_row(struct maple_tree *mt, bool highest, unsigned long max, unsigned long size,
		       unsigned long nodes)
{
	MA_STATE(mas, mt, 0, 0);

	leaves_over = 0;
	mtree_lock(mt);
	assert_int_equal((highest ? mas_empty_area_rev : mas_empty_area)(&mas, 0, max, size),
			 -EBUSY);
	mtree_unlock(mt);
	printf("leaves over %u, nodes %lu\n", leaves_over, nodes);
	assert_in_range(leaves_over, 0, 4 * nodes);
}

/* The gap of each leaf of the row is large enough, but none is below the limit. */
static void search_below_limit(void **state)
{
	struct maple_tree mt;
	unsigned long nodes = make_row(&mt);

	(void)state;
	for (unsigned int i = MANY - 1; i > MANY / 2; i -= 100)
		search_row(&mt, true, at_of(i), at_of(i) - 100, nodes);
	done(&mt);
}

/* An entry has made the gap of each leaf of the row too small, of which the next search learns. */
static void search_cut_row(void **state)
{
	(void)state;
	for (unsigned int highest = 0; highest < 2; highest++) {
		struct maple_tree mt;
		unsigned long nodes = make_row(&mt);

		/* Room for an entry: a split would take the row away. */
		assert_ptr_equal(mtree_erase(&mt, FAR + 20), ENTRY(2));
		assert_ptr_equal(mtree_erase(&mt, FAR + 30), ENTRY(3));
		store(&mt, at_of(MANY + 5), at_of(MANY + 5), ENTRY(1));
		search_row(&mt, highest, at_of(MANY + 5) - 1, 10 * MANY, nodes);
		search_row(&mt, highest, at_of(MANY + 5) - 1, 10 * MANY, 0);
		done(&mt);
	}
}

/* What must be refused is: then nothing has changed. */
static void stores_may_fail(void **state)
{
	DEFINE_MTREE(mt);

	(void)state;
	fill(&mt, RANGES);
	refuse_all = true;
	assert_int_equal(mtree_store_range(&mt, 7, 1500, NULL, GFP_KERNEL), -ENOMEM);
	assert_int_equal(mtree_store_range(&mt, 7, 1500, ENTRY(1), GFP_KERNEL), -ENOMEM);
	refuse_all = false;
	for (unsigned int i = 0; i < RANGES; i++)
		assert_ptr_equal(mtree_load(&mt, at_of(i) + 4), ENTRY(i));
	done(&mt);
}

/* --- stores that were prepared --------------------------------------------------------------- */

/* Erase ranges before and after those that a store will touch. */
static void erase_around(struct maple_tree *mt, uint64_t *seed, const struct ma_state *mas)
{
	for (unsigned int n = random_below(seed, 60); n > 0; n--) {
		if (mas->index > at_of(n))
			mtree_erase(mt, mas->index - at_of(n));
		if (random_below(seed, 8))
			mtree_erase(mt, mas->last + at_of(n));
	}
}

/* Erases that are refused nodes, between a preallocation and its store, do not make it fail. */
static void prepared_stores(void **state)
{
	uint64_t seed = 11;

	(void)state;
	for (unsigned int i = 0; i < 8000; i++) {
		struct maple_tree mt = MTREE_INIT(mt, i % 4 | MT_FLAGS_LOCK_EXTERN);
		unsigned long first = 10ul * random_below(&seed, RANGES);
		unsigned long last = first + random_below(&seed, i / 8 % 2 ? 12 : 400);
		void *entry = random_below(&seed, 2) ? ENTRY(RANGES) : NULL;
		MA_STATE(mas, &mt, first, last);

		fill(&mt, RANGES);
		if (i % 8 < 4)
			erase_around(&mt, &seed, &mas);
		assert_int_equal(mas_preallocate(&mas, entry, GFP_KERNEL), 0);
		refuse_all = true;
		erase_around(&mt, &seed, &mas);
		mas_store_prealloc(&mas, entry);
		refuse_all = false;
		assert_int_equal(mas_error(&mas), 0);
		assert_ptr_equal(mtree_load(&mt, first), entry);
		assert_ptr_equal(mtree_load(&mt, last), entry);
		done(&mt);
	}
}

/* --- with memory again ----------------------------------------------------------------------- */

/*
 * Without memory the tree keeps the nodes that it had. When there is memory again, the next store
 * to a leaf with few entries joins it, and the leaves without an entry beside it. If the tree
 * shrinks further, it is as small as one that was never refused a node.
 */
static void compact_again(void **state)
{
	(void)state;
	for (unsigned int flags = 0; flags < 4; flags++) {
		struct maple_tree mt = MTREE_INIT(mt, flags);
		unsigned long full;

		fill(&mt, MANY);
		full = nodes_in_use();
		refuse_all = true;
		erase_most(&mt, MANY, 100);
		refuse_all = false;
		assert_int_equal(nodes_in_use(), full);
		for (unsigned int i = 50; i < MANY; i += 100)
			store(&mt, at_of(i) + 5, at_of(i) + 6, ENTRY(i + 1));
		assert_int_equal(mt_validate(&mt), 0);
		assert_in_range(nodes_in_use(), 1, full / 6);
		for (unsigned int i = 50; i < MANY; i += 100) {
			assert_ptr_equal(mtree_erase(&mt, at_of(i)), ENTRY(i));
			if (i + 100 < MANY)
				assert_ptr_equal(mtree_erase(&mt, at_of(i) + 5), ENTRY(i + 1));
		}
		assert_int_equal(nodes_in_use(), 1);
		done(&mt);
	}
}

/* A store over leaves without an entry, and a split beside them, take them away, too. */
static void other_stores(void **state)
{
	for (unsigned int flags = 0; flags < 4; flags++) {
		struct maple_tree mt = MTREE_INIT(mt, flags);
		unsigned long full;

		(void)state;
		fill(&mt, MANY);
		full = nodes_in_use();
		refuse_all = true;
		for (unsigned int i = 100; i < MANY - 20; i++)
			assert_ptr_equal(mtree_erase(&mt, at_of(i)), ENTRY(i));
		refuse_all = false;
		assert_int_equal(nodes_in_use(), full);
		if (flags & MT_FLAGS_ALLOC_RANGE)
			store(&mt, at_of(200), at_of(MANY - 100), ENTRY(1));
		for (unsigned long at = at_of(90); at < at_of(100); at++)
			store(&mt, at, at, ENTRY(at));
		for (unsigned long at = at_of(MANY - 20); at < at_of(MANY - 10); at++)
			store(&mt, at, at, ENTRY(at));
		assert_int_equal(mt_validate(&mt), 0);
		assert_in_range(nodes_in_use(), 1, 60);
		done(&mt);
	}
}

/* Ranges come at one end and go at the other, where fifty erases are refused nodes, and fifty are
 * not. What they leave behind does not add up. */
static void window(void **state)
{
	for (unsigned int flags = 0; flags < 4; flags++) {
		struct maple_tree mt = MTREE_INIT(mt, flags);
		unsigned long full;

		(void)state;
		fill(&mt, RANGES);
		full = nodes_in_use();
		for (unsigned int i = RANGES; i < 3 * MANY; i++) {
			store(&mt, at_of(i), at_of(i) + 4, ENTRY(i));
			refuse_all = i / 50 % 2;
			assert_ptr_equal(mtree_erase(&mt, at_of(i - RANGES)), ENTRY(i - RANGES));
			refuse_all = false;
			if (i % 2000 == 0)
				assert_in_range(nodes_in_use(), 1, 2 * full);
		}
		done(&mt);
	}
}

/* --- copies ---------------------------------------------------------------------------------- */

static unsigned int copied;

static int count(void **entries, unsigned int n, void *arg)
{
	(void)entries, (void)arg;
	assert_in_range(n, 1, 16);
	copied += n;
	return 0;
}

static void nothing(void **entries, unsigned int n, void *arg)
{
	(void)entries, (void)n, (void)arg;
}

/* A leaf without an entry is copied, too, but its entries are not asked for. */
static void copy_with_empty_leaves(void **state)
{
	static const struct mt_dup_ops ops = {count, nothing};
	DEFINE_MTREE(mt);
	DEFINE_MTREE(copy);

	(void)state;
	fill(&mt, MANY);
	refuse_all = true;
	erase_most(&mt, MANY, 100);
	refuse_all = false;
	mtree_lock(&mt);
	mtree_lock(&copy);
	assert_int_equal(__mt_dup_each(&mt, &copy, &ops, NULL, GFP_KERNEL), 0);
	mtree_unlock(&copy);
	mtree_unlock(&mt);
	assert_int_equal(copied, MANY / 100);
	assert_int_equal(mt_validate(&copy), 0);
	refuse_all = true;
	for (unsigned int i = 50; i < MANY; i += 100)
		assert_ptr_equal(mtree_erase(&copy, at_of(i)), ENTRY(i));
	refuse_all = false;
	assert_true(mtree_empty(&copy));
	mtree_destroy(&mt);
	done(&copy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refuse_every_node),	  cmocka_unit_test(no_wait),
		cmocka_unit_test(gaps_over_empty_leaves), cmocka_unit_test(gaps_in_one_pass),
		cmocka_unit_test(search_below_limit),	  cmocka_unit_test(search_cut_row),
		cmocka_unit_test(stores_may_fail),	  cmocka_unit_test(compact_again),
		cmocka_unit_test(other_stores),		  cmocka_unit_test(window),
		cmocka_unit_test(copy_with_empty_leaves), cmocka_unit_test(prepared_stores),
	};

	provider_register();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
