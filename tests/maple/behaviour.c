/* SPDX-License-Identifier: MIT */
/* What the tree is documented to do, one test for each behaviour. */
#include <errno.h>
#include <sheaf/stats.h>
#include <string.h>

#include "../../maple/tree.h"
#include "help.h"
#include "provider.h"
#include "unit.h"

#define ENTRY(i) ((void *)(uintptr_t)(0x10000 + 16 * (uintptr_t)(i)))

static void store(struct maple_tree *mt, unsigned long first, unsigned long last, void *entry)
{
	assert_int_equal(mtree_store_range(mt, first, last, entry, GFP_KERNEL), 0);
}

static void done(struct maple_tree *mt)
{
	struct kmem_cache_stats stats;

	assert_int_equal(mt_validate(mt), 0);
	mtree_destroy(mt);
	assert_true(mtree_empty(mt));
	kvfree_rcu_barrier_on_cache(node_cache());
	assert_int_equal(kmem_cache_stats(node_cache(), &stats), 0);
	assert_int_equal(stats.objects_in_use, 0);
}

/* n ranges of 5 indices, each after 5 free ones: 5 ... 9, 15 ... 19, ... */
static void fill(struct maple_tree *mt, unsigned int n)
{
	for (unsigned long i = 0; i < n; i++)
		store(mt, 10 * i + 5, 10 * i + 9, ENTRY(i));
	assert_int_equal(mt_validate(mt), 0);
}

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
	assert_int_equal(mtree_insert_range(&mt, 10, 14, ENTRY(900), GFP_KERNEL), 0);
	assert_ptr_equal(mtree_load(&mt, 10), ENTRY(900));
	assert_ptr_equal(mtree_load(&mt, 15), ENTRY(1));
	done(&mt);
}

/* A NULL joins the free ranges beside it, and a gap over several leaves is one range. */
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

/* One range over leaves of different parents: nodes go, and in the end a level of them. */
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

/* Erasing one by one, upwards and downwards: leaves join, levels go, and at last the root. */
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

/* The number after ULONG_MAX is 0: the call after that one says that the numbers began again. */
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

static void duplicate(void **state)
{
	for (unsigned int flags = 0; flags < 4; flags++) {
		struct maple_tree mt = MTREE_INIT(mt, flags), to = MTREE_INIT(to, flags);
		struct maple_tree other = MTREE_INIT(other, flags ^ MT_FLAGS_ALLOC_RANGE);

		(void)state;
		fill(&mt, 3000);
		assert_int_equal(mtree_dup(&mt, &to, GFP_KERNEL), 0);
		assert_int_equal(mt_validate(&to), 0);
		assert_int_equal(mtree_dup(&mt, &to, GFP_KERNEL), -EINVAL);    /* not empty */
		assert_int_equal(mtree_dup(&mt, &other, GFP_KERNEL), -EINVAL); /* other flags */
		for (unsigned long i = 0; i < 3000; i++) {
			assert_ptr_equal(mtree_load(&to, 10 * i + 5), ENTRY(i));
			store(&to, 10 * i + 5, 10 * i + 9, ENTRY(i + 7));
		}
		for (unsigned long i = 0; i < 3000; i++)
			assert_ptr_equal(mtree_load(&mt, 10 * i + 5), ENTRY(i));
		assert_int_equal(mt_validate(&mt), 0);
		mtree_destroy(&mt);
		done(&to);
	}
}

/* What a fork does to entries: each is replaced by one that is 1 MiB above it. */
struct fork {
	unsigned long made, undone, sum; /* entries; the sum tells whether they are the same */
	void *before;			 /* the entry that was given last */
	unsigned int fail_in;		 /* the call that fails, and how; 0: none */
	int error;
	void *bad; /* put in as the last of its entries, with error 0 */
};

#define MIB UINT64_C(0x100000)

static int fork_copy(void **entries, unsigned int n, void *arg)
{
	struct fork *f = arg;
	bool now = f->fail_in && --f->fail_in == 0;

	assert_in_range(n, 1, 16);
	if (now && f->error)
		return f->error;
	for (unsigned int i = 0; i < n; i++) {
		assert_true(entries[i] > f->before);
		f->before = entries[i];
		if (now && i == n - 1) {
			entries[i] = f->bad;
			break;
		}
		entries[i] = (void *)((uintptr_t)entries[i] + MIB);
		f->sum += (uintptr_t)entries[i];
		f->made++;
	}
	return 0;
}

static void fork_undo(void **entries, unsigned int n, void *arg)
{
	struct fork *f = arg;

	assert_in_range(n, 1, 16);
	for (unsigned int i = 0; i < n; i++)
		f->sum -= (uintptr_t)entries[i];
	f->undone += n;
}

static const struct mt_dup_ops fork_ops = {fork_copy, fork_undo};

static void duplicate_each(void **state)
{
	static const unsigned int sizes[] = {0, 1, 7, 8, 60, 3000};

	(void)state;
	for (unsigned int c = 0; c < 4 * 6; c++) {
		struct maple_tree mt = MTREE_INIT(mt, c % 4), to = MTREE_INIT(to, c % 4);
		unsigned int n = sizes[c / 4];
		struct fork f = {0};

		fill(&mt, n);
		assert_int_equal(__mt_dup_each(&mt, &to, &fork_ops, &f, GFP_KERNEL), 0);
		assert_int_equal(f.made, n);
		assert_int_equal(f.undone, 0);
		assert_int_equal(mt_height(&to), mt_height(&mt));
		assert_int_equal(mt_validate(&to), 0);
		for (unsigned long i = 0; i < n; i++) {
			assert_null(mtree_load(&to, 10 * i + 4));
			assert_ptr_equal(mtree_load(&to, 10 * i + 5), ENTRY(i) + MIB);
			assert_ptr_equal(mtree_load(&to, 10 * i + 9), ENTRY(i) + MIB);
			assert_ptr_equal(mtree_load(&mt, 10 * i + 9), ENTRY(i));
		}
		assert_int_equal(__mt_dup_each(&mt, &to, &fork_ops, &f, GFP_KERNEL),
				 n ? -EINVAL : 0); /* not empty */
		mtree_destroy(&mt);
		done(&to);
	}
}

/* Each call fails in turn: the new entries of all others are given back, and no node stays. */
static void duplicate_each_fails(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_ALLOC_RANGE);
	static void *const bad[] = {NULL, (void *)6};

	(void)state;
	fill(&mt, 700);
	for (unsigned int way = 0; way < 3; way++)
		for (unsigned int n = 1;; n++) {
			struct maple_tree to = MTREE_INIT(to, mt.ma_flags);
			struct fork f = {.fail_in = n};
			int error;

			if (way == 2)
				f.error = -EPERM;
			else
				f.bad = bad[way];
			error = __mt_dup_each(&mt, &to, &fork_ops, &f, GFP_KERNEL);
			if (f.fail_in) {
				assert_int_equal(error, 0);
				assert_in_range(n, 700 / 16, 700 / 3);
				mtree_destroy(&to);
				break;
			}
			assert_int_equal(error, way == 2 ? -EPERM : -EINVAL);
			assert_true(mtree_empty(&to));
			assert_int_equal(f.undone, f.made);
			assert_int_equal(f.sum, 0);
		}
	done(&mt);
}

/* A tree without a node: its entry may become one that needs a node, and back. */
static void duplicate_each_single(void **state)
{
	void *const looks_like_node = (void *)(0x10002 + MIB);
	DEFINE_MTREE(mt);
	DEFINE_MTREE(to);
	struct fork f = {0};

	(void)state;
	store(&mt, 0, 0, ENTRY(0));
	assert_int_equal(__mt_dup_each(&mt, &to, &fork_ops, &f, GFP_KERNEL), 0);
	assert_ptr_equal(mtree_load(&to, 0), ENTRY(0) + MIB);
	assert_null(mtree_load(&to, 1));
	assert_int_equal(mt_height(&to), 0);
	store(&to, 0, 0, NULL);

	f = (struct fork){.fail_in = 1, .bad = looks_like_node};
	assert_int_equal(__mt_dup_each(&mt, &to, &fork_ops, &f, GFP_KERNEL), 0);
	assert_ptr_equal(mtree_load(&to, 0), looks_like_node);
	assert_null(mtree_load(&to, 1));
	assert_int_equal(mt_height(&to), 1);
	mtree_destroy(&to);

	f = (struct fork){.fail_in = 1, .bad = (void *)6};
	assert_int_equal(__mt_dup_each(&mt, &to, &fork_ops, &f, GFP_KERNEL), -EINVAL);
	f = (struct fork){.fail_in = 1, .bad = NULL};
	assert_int_equal(__mt_dup_each(&mt, &to, &fork_ops, &f, GFP_KERNEL), -EINVAL);
	f = (struct fork){.fail_in = 1, .error = -EAGAIN};
	assert_int_equal(__mt_dup_each(&mt, &to, &fork_ops, &f, GFP_KERNEL), -EAGAIN);
	assert_int_equal(f.undone, 0);
	assert_true(mtree_empty(&to));
	done(&mt);
}

/* The number of the last leaf's last slot. */
static unsigned int last_slot(const struct maple_tree *mt)
{
	struct path path;

	path_walk(&path, mt, ULONG_MAX);
	return path.at[0].offset;
}

/* Nodes that a store takes with readers: what docs/maple-tree.md says of each type. */
static void preallocation_counts(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_USE_RCU);
	unsigned long n = 100, at;

	(void)state;
	fill(&mt, 100);
	while (last_slot(&mt) > 13) /* the last leaf is to have room */
		mtree_erase(&mt, 10 * --n + 5);
	n -= 2; /* a range in that leaf: at ... at + 4 */
	at = 10 * n + 5;

	const struct {
		unsigned long first, last, nodes;
		void *entry;
		enum store_type type;
	} stores[] = {
		{at, at + 4, 0, ENTRY(500), wr_exact_fit},
		{at, at + 5, 0, ENTRY(n), wr_slot_store},
		{at + 4, at + 4, 0, NULL, wr_slot_store},
		{at, at + 4, 1, NULL, wr_node_store},
		{at + 1, at + 2, 1, ENTRY(1), wr_node_store},
		{5000, 5009, 0, ENTRY(1), wr_append},
		{0, ULONG_MAX, 1, ENTRY(1), wr_new_root},
		{at - 5, at - 1, 0, NULL, wr_none},
	};
	MA_STATE(mas, &mt, 0, 0);

	mtree_lock(&mt);
	for (size_t i = 0; i < sizeof(stores) / sizeof(stores[0]); i++) {
		mas_set_range(&mas, stores[i].first, stores[i].last);
		mas.node_request = 0;
		assert_int_equal(mas_preallocate(&mas, stores[i].entry, GFP_KERNEL), 0);
		assert_int_equal(mas.store_type, stores[i].type);
		assert_int_equal(mas.node_request, stores[i].nodes);
		mas_destroy(&mas);
	}
	mtree_unlock(&mt);
	done(&mt);
}

/* mas_store() without memory, mas_nomem() with it. */
static void nomem(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_USE_RCU);
	MA_STATE(mas, &mt, 0, 0);

	(void)state;
	fill(&mt, 100);
	mas_set_range(&mas, 7, 17);
	mtree_lock(&mt);
	do
		mas_store(&mas, ENTRY(1));
	while (mas_nomem(&mas, GFP_KERNEL));
	assert_false(mas_is_err(&mas));
	mas_destroy(&mas);
	mtree_unlock(&mt);
	assert_ptr_equal(mtree_load(&mt, 12), ENTRY(1));
	done(&mt);
}

/* A library built for debugging tells of a store without the lock; and does it. */
static void store_without_lock(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, 0), other = MTREE_INIT(other, MT_FLAGS_LOCK_EXTERN);
	MA_STATE(mas, &mt, 5, 9);
	struct told told;
	int lines;

	(void)state;
	told_begin(&told);
	assert_int_equal(mas_store_gfp(&mas, ENTRY(1), GFP_KERNEL), 0);
	lines = told_end(&told);
#ifdef SHEAF_DEBUG
	assert_int_equal(lines, 1);
	assert_non_null(strstr(told.text, "without its lock"));
#else
	assert_int_equal(lines, 0);
#endif
	told_begin(&told);
	mtree_lock(&mt);
	assert_int_equal(mas_store_gfp(&mas, NULL, GFP_KERNEL), 0);
	mtree_unlock(&mt);
	store(&other, 1, 2, ENTRY(1));
	store(&other, 0, ULONG_MAX, NULL);
	assert_int_equal(told_end(&told), 0);
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
		cmocka_unit_test(deficient_node),
		cmocka_unit_test(iteration),
		cmocka_unit_test(iteration_with_changes),
		cmocka_unit_test(previous_and_next),
		cmocka_unit_test(states),
		cmocka_unit_test(alloc_range_forward),
		cmocka_unit_test(alloc_range_reverse),
		cmocka_unit_test(alloc_cyclic),
		cmocka_unit_test(alloc_cyclic_overflow),
		cmocka_unit_test(duplicate),
		cmocka_unit_test(duplicate_each),
		cmocka_unit_test(duplicate_each_fails),
		cmocka_unit_test(duplicate_each_single),
		cmocka_unit_test(preallocation_counts),
		cmocka_unit_test(nomem),
		cmocka_unit_test(store_without_lock),
	};

	provider_register();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
