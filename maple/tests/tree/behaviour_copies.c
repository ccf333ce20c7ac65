/* SPDX-License-Identifier: MIT */
/* Documented behaviour: copies with different entries. */
#include "behaviour.h"

/* What a fork does to entries: each is replaced by one that is 1 MiB higher. */
struct fork {
	unsigned long made, undone, sum; /* entries; the sum tells whether they are the same */
	void *before;			 /* the last entry that was returned */
	unsigned int fail_in;		 /* the call that fails, and how; 0: none */
	int error;
	void *bad; /* stored as the last of its entries, with error 0 */
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

/* Programs of an older and of a newer header than the library's give other sizes. */
static void duplicate_each_of_other_headers(void **state)
{
	struct {
		struct mt_dup_ops known;
		void *unknown;
	} newer = {.known = fork_ops};
	DEFINE_MTREE(mt);
	DEFINE_MTREE(to);
	struct fork f = {0};

	(void)state;
	fill(&mt, 7);
	assert_int_equal(__mt_dup_sized(&mt, &to, &newer.known, sizeof(newer), &f, GFP_KERNEL), 0);
	assert_int_equal(f.made, 7);
	mtree_destroy(&to);
	newer.unknown = &newer;
	assert_int_equal(__mt_dup_sized(&mt, &to, &newer.known, sizeof(newer), &f, GFP_KERNEL),
			 -EINVAL);
	/* One call is too few, and half of one is none. */
	for (size_t size = 0; size < sizeof(fork_ops); size++)
		assert_int_equal(__mt_dup_sized(&mt, &to, &fork_ops, size, &f, GFP_KERNEL),
				 -EINVAL);
	newer.unknown = NULL;
	assert_int_equal(
		__mt_dup_sized(&mt, &to, &newer.known, sizeof(fork_ops) + 1, &f, GFP_KERNEL),
		-EINVAL);
	assert_int_equal(__mt_dup_each(&mt, &to, NULL, &f, GFP_KERNEL), -EINVAL);
	assert_true(mtree_empty(&to));
	done(&mt);
}

/* Each call fails in turn: the new entries of the earlier calls are undone, and no node is left. */
static void duplicate_each_fails(void **state)
{
	struct maple_tree mt = MTREE_INIT(mt, MT_FLAGS_ALLOC_RANGE);
	struct maple_tree to = MTREE_INIT(to, mt.ma_flags);
	static void *const bad[] = {NULL, (void *)6};
	struct fork small = {.fail_in = 1, .bad = (void *)8};
	unsigned long at = 0;
	void *entry;

	(void)state;
	fill(&mt, 700);
	for (unsigned int way = 0; way < 3; way++)
		for (unsigned int n = 1;; n++) {
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
	/* A small number is an entry like any other. */
	assert_int_equal(__mt_dup_each(&mt, &to, &fork_ops, &small, GFP_KERNEL), 0);
	assert_int_equal(mt_validate(&to), 0);
	mt_for_each(&to, entry, at, ULONG_MAX) small.undone += entry == (void *)8;
	assert_int_equal(small.undone, 1);
	mtree_destroy(&to);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(duplicate_each),
		cmocka_unit_test(duplicate_each_of_other_headers),
		cmocka_unit_test(duplicate_each_fails),
		cmocka_unit_test(duplicate_each_single),
	};

	provider_register();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
