/* SPDX-License-Identifier: MIT */
/*
 * The effect of each call on a state, for every end of the previous call: index, last, status and
 * the entry, step by step. Scripts of calls on a tree with three entries, with one entry and no
 * node, and with none; and after a store.
 */
#include "behaviour.h"

/* --- steps ----------------------------------------------------------------------------------- */

static void *set(struct ma_state *mas, unsigned long index)
{
	mas_set(mas, index);
	return NULL;
}

static void *pause_here(struct ma_state *mas, unsigned long unused)
{
	(void)unused;
	mas_pause(mas);
	return NULL;
}

static void *walk(struct ma_state *mas, unsigned long unused)
{
	(void)unused;
	return mas_walk(mas);
}

/* Returns NULL, which is the entry afterwards. */
static void *erase(struct ma_state *mas, unsigned long entry)
{
	mas_lock(mas);
	assert_ptr_equal(mas_erase(mas), entry ? ENTRY(entry) : NULL);
	mas_unlock(mas);
	return NULL;
}

static void *store_null(struct ma_state *mas, unsigned long last)
{
	mas->last = last;
	mas_lock(mas);
	assert_int_equal(mas_store_gfp(mas, NULL, GFP_KERNEL), 0);
	mas_unlock(mas);
	return NULL;
}

static void *store_entry(struct ma_state *mas, unsigned long last)
{
	mas->last = last;
	mas_lock(mas);
	assert_int_equal(mas_store_gfp(mas, ENTRY(9), GFP_KERNEL), 0);
	mas_unlock(mas);
	return NULL;
}

/* The place of an entry, or NULL if there is none. */
struct range {
	unsigned long index, last;
	void *entry;
};

struct one_step {
	void *(*call)(struct ma_state *mas, unsigned long limit);
	unsigned long limit;
	struct range at; /* where the state has to be afterwards */
	bool found;	 /* the result is the entry there, else NULL */
	enum maple_status status;
};

static void run(struct maple_tree *mt, const struct one_step *steps, size_t n)
{
	MA_STATE(mas, mt, 0, 0);

	for (size_t i = 0; i < n; i++) {
		const struct one_step *step = &steps[i];
		void *entry = step->call(&mas, step->limit);

		if (entry != (step->found ? step->at.entry : NULL) || mas.index != step->at.index ||
		    mas.last != step->at.last || mas.status != step->status)
			print_error("step %zu: %p, %#lx ... %#lx, status %d\n", i, entry, mas.index,
				    mas.last, mas.status);
		assert_ptr_equal(entry, step->found ? step->at.entry : NULL);
		assert_int_equal(mas.index, step->at.index);
		assert_int_equal(mas.last, step->at.last);
		assert_int_equal(mas.status, step->status);
		assert_int_equal(mas_is_active(&mas), step->status == ma_active);
		assert_int_equal(mas_is_start(&mas), step->status == ma_start);
		assert_int_equal(mas_is_paused(&mas), step->status == ma_pause);
	}
}

#define RANGE(...)     ((struct range){__VA_ARGS__})
#define RUN(mt, steps) run((mt), (steps), sizeof(steps) / sizeof((steps)[0]))
/* The entry where the state is afterwards; NULL, and the state is there; NULL, and this status. */
#define GIVES(call, limit, at)	      call, limit, at, true, ma_active
#define AT(call, limit, at)	      call, limit, at, false, ma_active
#define ENDS(call, limit, at, status) call, limit, at, false, status
#define SET(i)			      ENDS(set, i, RANGE(i, i, NULL), ma_start)
#define PAUSE(at)		      ENDS(pause_here, 0, at, ma_pause)

/* --- three entries --------------------------------------------------------------------------- */

static const struct range a = {0x1000, 0x1500, ENTRY(1)};
static const struct range b = {0x2000, 0x2500, ENTRY(2)};
static const struct range c = {0x3000, 0x3500, ENTRY(3)};
static const struct range before_a = {0, 0xfff, NULL};
static const struct range after_a = {0x1501, 0x1fff, NULL};
static const struct range after_b = {0x2501, 0x2fff, NULL};
static const struct range after_c = {0x3501, ULONG_MAX, NULL};

static void three_entries(struct maple_tree *mt)
{
	mt_init(mt);
	store(mt, 0x1000, 0x1500, ENTRY(1));
	store(mt, 0x2000, 0x2500, ENTRY(2));
	store(mt, 0x3000, 0x3500, ENTRY(3));
}

/* A step beyond the limit leaves the state in the gap there, or unchanged. */
static void next_and_prev(void **state)
{
	const struct one_step steps[] = {
		{SET(0)},
		{GIVES(mas_next, ULONG_MAX, a)},
		{GIVES(mas_next, 0x2100, b)}, /* begins below the limit */
		{ENDS(mas_next, 0x2999, after_b, ma_overflow)},
		{GIVES(mas_next, ULONG_MAX, c)},
		{ENDS(mas_next, 0x3500, c, ma_overflow)},
		{ENDS(mas_next, ULONG_MAX, after_c, ma_overflow)},
		{ENDS(mas_next, ULONG_MAX, after_c, ma_overflow)},
		{GIVES(mas_prev, 0, c)},
		{ENDS(mas_next, 0x3400, c, ma_overflow)},
		{GIVES(mas_prev, 0, c)}, /* the last one again: the search did not move on */
		{GIVES(mas_prev, 0, b)},
		{GIVES(mas_prev, 0x1200, a)},
		{ENDS(mas_prev, 0x1200, a, ma_underflow)},
		{ENDS(mas_prev, 0x100, before_a, ma_underflow)},
		{ENDS(mas_prev, 0, before_a, ma_underflow)},
		{GIVES(mas_next, ULONG_MAX, a)},
		{ENDS(mas_prev, 0x1000, a, ma_underflow)},
		{GIVES(mas_next, ULONG_MAX, a)},
		{PAUSE(a)},
		{GIVES(mas_next, ULONG_MAX, b)},
		{PAUSE(b)},
		{GIVES(mas_prev, 0, a)},
		{SET(0x1800)},
		{GIVES(mas_next, ULONG_MAX, b)},
		{SET(0x1800)},
		{GIVES(mas_prev, 0, a)},
		{SET(0x1200)},
		{ENDS(mas_next, 0x1400, a, ma_overflow)},
		{SET(0x1200)},
		{ENDS(mas_next, 0x1200, RANGE(0x1200, 0x1200, NULL), ma_overflow)},
	};
	struct maple_tree mt;

	(void)state;
	three_entries(&mt);
	RUN(&mt, steps);
	done(&mt);
}

static void next_and_prev_range(void **state)
{
	const struct one_step steps[] = {
		{SET(0x1200)},
		{AT(mas_next_range, ULONG_MAX, after_a)},
		{GIVES(mas_next_range, ULONG_MAX, b)},
		{ENDS(mas_next_range, 0x2500, b, ma_overflow)},
		{AT(mas_next_range, ULONG_MAX, after_b)},
		{ENDS(mas_next_range, 0x2fff, after_b, ma_overflow)},
		{GIVES(mas_next_range, 0x3000, c)},
		{AT(mas_next_range, ULONG_MAX, after_c)},
		{ENDS(mas_next_range, ULONG_MAX, after_c, ma_overflow)},
		{GIVES(mas_prev_range, 0, c)},
		{AT(mas_prev_range, 0, after_b)},
		{ENDS(mas_prev_range, 0x2501, after_b, ma_underflow)},
		{GIVES(mas_prev_range, 0, b)},
		{PAUSE(b)},
		{AT(mas_prev_range, 0, after_a)},
		{PAUSE(after_a)},
		{GIVES(mas_next_range, ULONG_MAX, b)},
		{SET(0x1800)},
		{GIVES(mas_next_range, ULONG_MAX, b)},
	};
	struct maple_tree mt;

	(void)state;
	three_entries(&mt);
	RUN(&mt, steps);
	done(&mt);
}

/* At the limit mas_find() does not change the state; mas_find_rev() does. */
static void find(void **state)
{
	const struct one_step steps[] = {
		{SET(0x1200)},
		{GIVES(mas_find, ULONG_MAX, a)},
		{AT(mas_find, 0x1500, a)},
		{GIVES(mas_find, 0x2700, b)},
		{ENDS(mas_find, 0x2700, after_b, ma_overflow)},
		{ENDS(mas_find, 0x2fff, after_b, ma_overflow)},
		{GIVES(mas_find, 0x3000, c)},
		{ENDS(mas_find, ULONG_MAX, after_c, ma_overflow)},
		{GIVES(mas_find_rev, 0, c)},
		{GIVES(mas_find_rev, 0x2500, b)},
		{ENDS(mas_find_rev, 0x2000, b, ma_underflow)},
		{ENDS(mas_find_rev, 0x1800, after_a, ma_underflow)},
		{GIVES(mas_find_rev, 0, a)},
		{ENDS(mas_find_rev, 0, before_a, ma_underflow)},
		{GIVES(mas_find, ULONG_MAX, a)},
		{PAUSE(a)},
		{GIVES(mas_find, ULONG_MAX, b)},
		{PAUSE(b)},
		{ENDS(mas_find, 0x2500, b, ma_pause)},
		{GIVES(mas_find_rev, 0, a)},
		{PAUSE(a)},
		{ENDS(mas_find_rev, 0x1000, a, ma_underflow)},
		{GIVES(mas_find, ULONG_MAX, a)}, /* looks there: the search down ended there */
		{SET(0x1800)},
		{ENDS(mas_find, 0x17ff, RANGE(0x1800, 0x1800, NULL), ma_start)},
		{ENDS(mas_find_rev, 0x1801, RANGE(0x1800, 0x1800, NULL), ma_start)},
		{ENDS(mas_find, 0x1fff, after_a, ma_overflow)},
		{SET(0x1800)},
		{ENDS(mas_find_rev, 0x1501, after_a, ma_underflow)},
		{SET(0x1800)},
		{GIVES(mas_find_rev, 0x1500, a)},
	};
	struct maple_tree mt;

	(void)state;
	three_entries(&mt);
	RUN(&mt, steps);
	done(&mt);
}

/* Gaps count on the way, but not the gap where the search begins, or begins again. */
static void find_range(void **state)
{
	const struct one_step steps[] = {
		{SET(0x1800)},
		{GIVES(mas_find_range, ULONG_MAX, b)},
		{AT(mas_find_range, ULONG_MAX, after_b)},
		{AT(mas_find_range, 0x2fff, after_b)},
		{GIVES(mas_find_range, ULONG_MAX, c)},
		{AT(mas_find_range, ULONG_MAX, after_c)},
		{AT(mas_find_range, ULONG_MAX, after_c)},
		{GIVES(mas_find_range_rev, 0, c)},
		{AT(mas_find_range_rev, 0, after_b)},
		{ENDS(mas_find_range_rev, 0x2501, after_b, ma_underflow)},
		{GIVES(mas_find_range_rev, 0, b)},
		{PAUSE(b)},
		{GIVES(mas_find_range_rev, 0, a)},
		{PAUSE(a)},
		{GIVES(mas_find_range, ULONG_MAX, b)},
		{SET(0x1800)},
		{GIVES(mas_find_range_rev, 0, a)},
		{AT(mas_find_range_rev, 0, before_a)},
		{ENDS(mas_find_range_rev, 0, before_a, ma_underflow)},
		{SET(0x3600)},
		{ENDS(mas_find_range, ULONG_MAX, after_c, ma_overflow)},
	};
	struct maple_tree mt;

	(void)state;
	three_entries(&mt);
	RUN(&mt, steps);
	done(&mt);
}

static void walks(void **state)
{
	const struct one_step steps[] = {
		{SET(0x1200)},
		{GIVES(walk, 0, a)},
		{SET(0x1600)},
		{AT(walk, 0, after_a)},
		{PAUSE(after_a)},
		{AT(walk, 0, after_a)},
		{ENDS(mas_next, 0x1fff, after_a, ma_overflow)},
		{AT(walk, 0, after_a)},
		{ENDS(mas_prev, 0x1501, after_a, ma_underflow)},
		{AT(walk, 0, after_a)},
		{SET(ULONG_MAX)},
		{AT(walk, 0, after_c)},
	};
	struct maple_tree mt;

	(void)state;
	three_entries(&mt);
	RUN(&mt, steps);
	done(&mt);
}

/* Only a walk or a reset continues from an error. */
static void errors(void **state)
{
	void *(*const calls[])(struct ma_state *, unsigned long) = {
		mas_find, mas_find_range, mas_find_rev, mas_find_range_rev,
		mas_next, mas_next_range, mas_prev,	mas_prev_range};
	struct maple_tree mt;
	MA_STATE(mas, &mt, 9, 8);

	(void)state;
	three_entries(&mt);
	mtree_lock(&mt);
	assert_int_equal(mas_store_gfp(&mas, ENTRY(3), GFP_KERNEL), -EINVAL);
	mtree_unlock(&mt);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		assert_null(calls[i](&mas, i % 4 < 2 ? ULONG_MAX : 0));
		assert_true(mas_is_err(&mas));
		assert_int_equal(mas_error(&mas), -EINVAL);
		assert_int_equal(mas.index, 9);
	}
	mas.index = 0x1200;
	assert_ptr_equal(mas_walk(&mas), ENTRY(1));
	assert_false(mas_is_err(&mas));
	done(&mt);
}

/* --- without a node --------------------------------------------------------------------------- */

static const struct range zero = {0, 0, ENTRY(1)};
static const struct range beyond = {1, ULONG_MAX, NULL};
static const struct range nothing_at_all = {0, ULONG_MAX, NULL};
#define ROOT(call, limit) call, limit, zero, true, ma_root

static void one_entry_at_zero(void **state)
{
	const struct one_step steps[] = {
		{SET(0)},
		{ENDS(mas_prev, 0, RANGE(0, 0, NULL), ma_underflow)},
		{SET(10)},
		{ROOT(mas_prev, 0)},
		{SET(10)},
		{PAUSE(RANGE(10, 10, NULL))},
		{ROOT(mas_prev, 0)},
		{SET(10)},
		{ENDS(mas_prev, 5, beyond, ma_underflow)},
		{SET(0)},
		{ENDS(mas_next, ULONG_MAX, beyond, ma_none)},
		{SET(10)},
		{ENDS(mas_next_range, ULONG_MAX, beyond, ma_none)},
		{ROOT(mas_prev_range, 0)},
		{SET(0)},
		{ROOT(mas_find, ULONG_MAX)},
		{ENDS(mas_find, ULONG_MAX, beyond, ma_none)},
		{ENDS(mas_find, ULONG_MAX, beyond, ma_none)},
		{ROOT(mas_find_rev, 0)},
		{ENDS(mas_find_rev, 0, zero, ma_none)},
		{ENDS(mas_find_rev, 0, zero, ma_none)},
		{ROOT(mas_find_range, ULONG_MAX)},
		{ENDS(mas_find_range, ULONG_MAX, beyond, ma_none)},
		{SET(10)},
		{ENDS(mas_find, ULONG_MAX, beyond, ma_none)},
		{SET(10)},
		{ROOT(mas_find_rev, 0)},
		{SET(10)},
		{ENDS(walk, 0, beyond, ma_none)},
		{PAUSE(beyond)},
		{ENDS(walk, 0, beyond, ma_none)},
		{SET(0)},
		{ROOT(walk, 0)},
		{ROOT(walk, 0)},
		{ENDS(store_entry, 0, zero, ma_root)},
	};
	DEFINE_MTREE(mt);

	(void)state;
	store(&mt, 0, 0, ENTRY(1));
	RUN(&mt, steps);
	done(&mt);
}

static void nothing(void **state)
{
	const struct one_step steps[] = {
		{SET(7)},
		{ENDS(walk, 0, nothing_at_all, ma_none)},
		{SET(7)},
		{ENDS(mas_find, ULONG_MAX, nothing_at_all, ma_none)},
		{ENDS(mas_find, ULONG_MAX, nothing_at_all, ma_none)},
		{SET(7)},
		{ENDS(mas_find_rev, 0, nothing_at_all, ma_none)},
		{SET(7)},
		{ENDS(mas_next, ULONG_MAX, nothing_at_all, ma_none)},
		{ENDS(mas_next_range, ULONG_MAX, nothing_at_all, ma_overflow)},
		{SET(7)},
		{ENDS(mas_prev, 0, nothing_at_all, ma_none)},
		{SET(7)},
		{ENDS(erase, 0, RANGE(7, 7, NULL), ma_none)},
		{SET(7)},
		{ENDS(store_null, 9, RANGE(7, 9, NULL), ma_start)},
	};
	DEFINE_MTREE(mt);

	(void)state;
	RUN(&mt, steps);
	done(&mt);
}

/* --- after a store ---------------------------------------------------------------------------- */

/* After an erasure the state is in the new gap, and continues from it. */
static void after_erasing(void **state)
{
	const struct one_step steps[] = {
		{SET(0x2100)},
		{AT(erase, 2, RANGE(0x1501, 0x2fff, NULL))},
		{GIVES(mas_next_range, ULONG_MAX, c)},
		{AT(mas_prev_range, 0, RANGE(0x1501, 0x2fff, NULL))},
		{GIVES(mas_prev_range, 0, a)},
		{AT(erase, 1, RANGE(0, 0x2fff, NULL))},
		{GIVES(mas_find_range, ULONG_MAX, c)},
		{ENDS(erase, 3, nothing_at_all, ma_start)},
		{ENDS(mas_find, ULONG_MAX, nothing_at_all, ma_none)},
	};
	struct maple_tree mt;

	(void)state;
	three_entries(&mt);
	RUN(&mt, steps);
	done(&mt);
}

static void after_storing_null(void **state)
{
	const struct one_step steps[] = {
		{SET(0x1400)},
		{AT(store_null, 0x2100, RANGE(0x1400, 0x2100, NULL))},
		{GIVES(mas_find_range, ULONG_MAX, RANGE(0x2101, 0x2500, ENTRY(2)))},
		{AT(store_null, 0x2500, RANGE(0x1400, 0x2fff, NULL))},
		{GIVES(mas_find_rev, 0, RANGE(0x1000, 0x13ff, ENTRY(1)))},
		{SET(0x1800)},
		{AT(store_null, 0x1900, RANGE(0x1400, 0x2fff, NULL))}, /* nothing new */
		{GIVES(mas_next, ULONG_MAX, c)},
		{SET(0x3501)},
		{AT(store_entry, 0x3600, RANGE(0x3501, 0x3600, NULL))},
		{GIVES(mas_prev, 0, c)},
		{SET(0)},
		{ENDS(store_null, ULONG_MAX, nothing_at_all, ma_start)},
	};
	struct maple_tree mt;

	(void)state;
	three_entries(&mt);
	RUN(&mt, steps);
	done(&mt);
}

/* The gap covers several leaves below several nodes; the state still covers all of it. */
static void gaps_of_many_leaves(void **state)
{
	for (unsigned int flags = 0; flags < 4; flags++) {
		struct maple_tree mt = MTREE_INIT(mt, flags | MT_FLAGS_LOCK_EXTERN);
		unsigned long n = 1500;
		MA_STATE(mas, &mt, 0, 0);

		(void)state;
		fill(&mt, 1500);
		for (unsigned long i = 1; i < n - 1; i++) {
			mas_set(&mas, 10 * i + 7);
			assert_ptr_equal(mas_erase(&mas), ENTRY(i));
			assert_int_equal(mas.index, 10); /* only the first before it is left */
			assert_int_equal(mas.last, 10 * i + 14);
			assert_ptr_equal(mas_find_range(&mas, ULONG_MAX), ENTRY(i + 1));
			mas_set(&mas, 10 * i + 7);
			assert_null(mas_find(&mas, 10 * i + 14));
			assert_int_equal(mas.status, ma_overflow);
			assert_int_equal(mas.index, 10);
			assert_int_equal(mas.last, 10 * i + 14);
			assert_ptr_equal(mas_prev_range(&mas, 0), ENTRY(0));
			mas_set(&mas, 10 * i + 7); /* a state that has looked at nothing */
			assert_null(mas_next(&mas, 10 * i));
			assert_null(mas_next(&mas, 10 * i + 13));
			assert_int_equal(mas.status, ma_overflow);
			assert_int_equal(mas.index, 10);
			assert_int_equal(mas.last, 10 * i + 14);
		}
		done(&mt);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(next_and_prev),
		cmocka_unit_test(next_and_prev_range),
		cmocka_unit_test(find),
		cmocka_unit_test(find_range),
		cmocka_unit_test(walks),
		cmocka_unit_test(errors),
		cmocka_unit_test(one_entry_at_zero),
		cmocka_unit_test(nothing),
		cmocka_unit_test(after_erasing),
		cmocka_unit_test(after_storing_null),
		cmocka_unit_test(gaps_of_many_leaves),
	};

	provider_register();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
