/* SPDX-License-Identifier: MIT */
/*
 * Random stores, erasures, searches and iterations, each compared with a plain model, the tree's
 * invariants proved again and again. The seed is told on failure; SEED repeats one, STEPS goes on
 * longer.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <sheaf/stats.h>

#include "../../maple/tree.h"
#include "model.h"
#include "provider.h"

struct run {
	uint64_t seed, random;
	unsigned int flags, step;
	unsigned int fill; /* of 100 stores, so many are of entries */
	unsigned int span; /* cells that a store covers at most */
	struct maple_tree tree;
	struct model model;
};

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s: seed %" PRIu64 ", flags %u, step %u\n",        \
				__FILE__, __LINE__, #condition, r->seed, r->flags, r->step);       \
			mt_dump(&r->tree, stderr);                                                 \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static unsigned int below(struct run *r, unsigned int n)
{
	r->random ^= r->random << 13;
	r->random ^= r->random >> 7;
	r->random ^= r->random << 17;
	return (unsigned int)((r->random * UINT64_C(0x2545f4914f6cdd1d) >> 33) % n);
}

static void *entry_of(const struct run *r)
{
	return (void *)(4096 + 16 * (r->model.stores + 1));
}

static void check_range(struct run *r, const struct ma_state *mas, const void *entry,
			unsigned int c)
{
	const struct model *m = &r->model;

	CHECK(entry == m->cells[c].entry);
	CHECK(mas->index == cell_min(m, model_first(m, c)));
	CHECK(mas->last == cell_max(m, model_last(m, c)));
}

/* Every range and gap, upwards and downwards. */
static void check_all(struct run *r)
{
	const struct model *m = &r->model;
	MA_STATE(mas, &r->tree, 0, 0);
	unsigned int c = 0;
	void *entry;

	CHECK(mt_validate(&r->tree) == 0);
	for (c = 0; c < m->n; c = model_last(m, c) + 1)
		check_range(r, &mas, mas_find_range(&mas, ULONG_MAX), c);
	CHECK(!mas_find_range(&mas, ULONG_MAX) && mas.status == ma_overflow);
	mas_set(&mas, ULONG_MAX);
	for (c = m->n; c-- > 0; c = model_first(m, c))
		check_range(r, &mas, mas_find_range_rev(&mas, 0), c);
	CHECK(!mas_find_range_rev(&mas, 0) && mas.status == ma_underflow);
	mas_set(&mas, 0);
	c = model_used(m, 0, true);
	mas_for_each(&mas, entry, ULONG_MAX)
	{
		CHECK(c < m->n);
		check_range(r, &mas, entry, c);
		c = model_last(m, c) + 1;
		if (c < m->n)
			c = model_used(m, c, true);
	}
	CHECK(c == m->n);
	mas_set(&mas, ULONG_MAX);
	c = model_used(m, m->n - 1, false);
	mas_for_each_rev(&mas, entry, 0)
	{
		check_range(r, &mas, entry, c);
		c = model_first(m, c);
		c = c ? model_used(m, c - 1, false) : m->n;
	}
	CHECK(c == m->n);
}

static void store(struct run *r)
{
	struct model *m = &r->model;
	unsigned int a = below(r, m->n), b = a + below(r, 1 + below(r, r->span));
	void *entry = below(r, 100) < r->fill ? entry_of(r) : NULL;
	MA_STATE(mas, &r->tree, 0, 0);

	if (b >= m->n)
		b = m->n - 1;
	if (below(r, 4) == 0) { /* a whole range, or one that grows over its end */
		a = model_first(m, a);
		b = model_last(m, a);
		if (below(r, 2)) {
			entry = m->cells[a].entry;
			b += b < m->n - 1;
		} else if (below(r, 2)) {
			entry = m->cells[b].entry;
			a -= a > 0;
		}
	}
	mas_set_range(&mas, cell_min(m, a), cell_max(m, b));
	switch (below(r, 3)) {
	case 0:
		CHECK(mas_preallocate(&mas, entry, GFP_KERNEL) == 0);
		mas_store_prealloc(&mas, entry);
		break;
	case 1:
		CHECK(mas_store(&mas, entry) == m->cells[a].entry && !mas_is_err(&mas));
		break;
	default:
		CHECK(mas_store_gfp(&mas, entry, GFP_KERNEL) == 0);
	}
	model_store(m, a, b, entry);
	CHECK(!mas.sheaf && !mas.alloc);
	if (below(r, 4) == 0) { /* the state goes on from there */
		unsigned int c = b < m->n - 1 ? model_used(m, b + 1, true) : m->n;
		unsigned int last = model_last(m, b);
		void *next = mas_find(&mas, ULONG_MAX);

		if (c < m->n && last == b)
			check_range(r, &mas, next, c);
	}
}

static void erase(struct run *r)
{
	struct model *m = &r->model;
	unsigned int c = below(r, m->n), first = model_first(m, c), last = model_last(m, c);
	unsigned long index = cell_min(m, c) + below(r, (unsigned int)(m->width % 1000 + 1));

	if (cell_of(m, index) != c)
		return;
	CHECK(mtree_erase(&r->tree, index) == m->cells[c].entry);
	if (m->cells[c].entry)
		model_store(m, first, last, NULL);
}

static void insert(struct run *r)
{
	struct model *m = &r->model;
	unsigned int a = below(r, m->n), b = a + below(r, r->span);
	void *entry = entry_of(r);
	bool taken;
	int error;

	if (b >= m->n)
		b = m->n - 1;
	taken = model_used(m, a, true) <= b;
	error = mtree_insert_range(&r->tree, cell_min(m, a), cell_max(m, b), entry, GFP_KERNEL);
	CHECK(error == (taken ? -EEXIST : 0));
	if (!taken)
		model_store(m, a, b, entry);
}

static void look(struct run *r)
{
	const struct model *m = &r->model;
	unsigned int c = below(r, m->n), used;
	unsigned long index = cell_max(m, c), at = index;
	MA_STATE(mas, &r->tree, index, index);
	void *entry;

	CHECK(mtree_load(&r->tree, index) == m->cells[c].entry);
	CHECK(mtree_load(&r->tree, cell_min(m, c)) == m->cells[c].entry);
	check_range(r, &mas, mas_walk(&mas), c);
	used = model_used(m, c, true);
	entry = mt_find(&r->tree, &at, ULONG_MAX);
	CHECK(entry == (used < m->n ? m->cells[used].entry : NULL));
	if (entry)
		CHECK(at == cell_max(m, model_last(m, used)) + 1);
	mas_set(&mas, index);
	entry = mas_find_rev(&mas, 0);
	used = model_used(m, c, false);
	CHECK(entry == (used < m->n ? m->cells[used].entry : NULL));
	used = model_last(m, c) + 1;
	used = used < m->n ? model_used(m, used, true) : m->n;
	entry = mt_next(&r->tree, index, ULONG_MAX);
	CHECK(entry == (used < m->n ? m->cells[used].entry : NULL));
	used = model_first(m, c);
	used = used ? model_used(m, used - 1, false) : m->n;
	entry = mt_prev(&r->tree, index, 0);
	CHECK(entry == (used < m->n ? m->cells[used].entry : NULL));
}

static void gap(struct run *r)
{
	const struct model *m = &r->model;
	unsigned int a = below(r, m->n), b = a + below(r, m->n - a);
	unsigned long min = cell_min(m, a) + below(r, 3), max = cell_max(m, b) - below(r, 3);
	unsigned long size = 1 + below(r, (unsigned int)(4 * m->width % 100000)), start = 0;
	bool highest = below(r, 2), fits;
	MA_STATE(mas, &r->tree, 0, 0);
	int error;

	if (below(r, 2))
		min = 0, max = ULONG_MAX;
	if (min > max)
		return;
	fits = model_gap(m, min, max, size, highest, &start);
	error = highest ? mas_empty_area_rev(&mas, min, max, size)
			: mas_empty_area(&mas, min, max, size);
	if (!(r->flags & MT_FLAGS_ALLOC_RANGE)) {
		CHECK(error == -EINVAL);
		return;
	}
	CHECK(error == (fits ? 0 : -EBUSY));
	if (fits)
		CHECK(mas.index == start && mas.last == start + size - 1);
}

static void copy(struct run *r)
{
	struct maple_tree old = r->tree;

	mt_init_flags(&r->tree, r->flags);
	CHECK(__mt_dup(&old, &r->tree, GFP_KERNEL) == 0);
	__mt_destroy(&old);
	check_all(r);
}

/* Every node is in a tree or free. */
static void check_nodes(struct run *r)
{
	struct kmem_cache_stats stats;

	kvfree_rcu_barrier_on_cache(node_cache());
	CHECK(kmem_cache_stats(node_cache(), &stats) == 0 && stats.objects_in_use == 0);
}

static void go(uint64_t seed, unsigned int flags, unsigned int cells, unsigned int steps)
{
	struct run run = {.seed = seed, .random = seed * 2 + 1, .flags = flags}, *r = &run;

	mt_init_flags(&r->tree, flags | MT_FLAGS_LOCK_EXTERN);
	r->flags = r->tree.ma_flags;
	for (unsigned int i = 0; i < 8; i++)
		below(r, 2);
	model_init(&r->model, cells, below(r, 2) ? 1 : 4096);
	for (r->step = 0; r->step < steps; r->step++) {
		unsigned int what = below(r, 100);

		if (r->step % 1024 == 0) {
			r->fill = below(r, 5) * 25;
			r->span = below(r, 4) == 0 ? cells : 1 + below(r, 12);
		}
		if (what < 55)
			store(r);
		else if (what < 65)
			erase(r);
		else if (what < 75)
			insert(r);
		else if (what < 85)
			look(r);
		else
			gap(r);
		if (cells < 2000 ? r->step % 16 == 0 : r->step % 2048 == 0)
			CHECK(mt_validate(&r->tree) == 0);
		if (r->step % (cells < 2000 ? 256 : 8192) == 0)
			check_all(r);
		if (r->step % 4096 == 77)
			copy(r);
	}
	check_all(r);
	__mt_destroy(&r->tree);
	CHECK(mtree_empty(&r->tree));
	check_nodes(r);
	free(r->model.cells);
}

int main(void)
{
	const char *one = getenv("SEED"), *longer = getenv("STEPS");
	unsigned int steps = longer ? (unsigned int)strtoul(longer, NULL, 0) : 10000;
	uint64_t first = one ? strtoull(one, NULL, 0) : 1, last = one ? first : 2;

	provider_register();
	for (uint64_t seed = first; seed <= last; seed++)
		for (unsigned int flags = 0; flags < 4; flags++) {
			go(seed, flags, 40, steps);
			go(seed, flags, 600, steps);
			go(seed, flags, 20000, steps);
		}
	return 0;
}
