/* SPDX-License-Identifier: MIT */
/* Loads, walks, searches and iterations compared with the model; see searches.h. */
#include "searches.h"

/* The state is at this cell's range, or gap. */
static void check_range(struct run *r, const struct ma_state *mas, const void *entry,
			unsigned int c)
{
	const struct model *m = &r->model;

	CHECK(c < m->n);
	CHECK(entry == m->cells[c].entry);
	CHECK(mas->index == cell_min(m, model_first(m, c)));
	CHECK(mas->last == cell_max(m, model_last(m, c)));
}

void check_all(struct run *r)
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

static void look(struct run *r, const struct op *op)
{
	const struct model *m = &r->model;
	unsigned int c = cell_of(m, op->index);
	MA_STATE(mas, &r->tree, op->index, op->index);

	TELL("mtree_load(&mt, %luUL);", op->index);
	CHECK(mtree_load(&r->tree, op->index) == m->cells[c].entry);
	TELL("mas_set(&mas, %luUL);\n\tmas_walk(&mas);", op->index);
	check_range(r, &mas, mas_walk(&mas), c);
}

/* --- one step of a search -------------------------------------------------------------------- */

static const struct search {
	const char *name;
	void *(*call)(struct ma_state *mas, unsigned long limit);
	bool up, gaps, after; /* after: not the range at the index, but the one after (before) it */
} searches[] = {
	{"mas_find", mas_find, true, false, false},
	{"mas_find_range", mas_find_range, true, true, false},
	{"mas_find_rev", mas_find_rev, false, false, false},
	{"mas_find_range_rev", mas_find_range_rev, false, true, false},
	{"mas_next", mas_next, true, false, true},
	{"mas_next_range", mas_next_range, true, true, true},
	{"mas_prev", mas_prev, false, false, true},
	{"mas_prev_range", mas_prev_range, false, true, true},
};

/* The cell whose range a search from this index on should find, or n. */
static unsigned int wanted(const struct model *m, const struct search *s, unsigned long index,
			   unsigned long limit)
{
	unsigned int c = cell_of(m, index);

	if (s->up ? index > limit : index < limit)
		return m->n;
	if (s->gaps || m->cells[c].entry)
		return c;
	c = model_used(m, c, s->up);
	if (c < m->n && (s->up ? cell_min(m, c) > limit : cell_max(m, c) < limit))
		return m->n;
	return c;
}

/* From this range on, or m->n if there is none. */
static unsigned int wanted_after(const struct model *m, const struct search *s, unsigned int c,
				 unsigned long limit)
{
	unsigned long first = cell_min(m, model_first(m, c)), last = cell_max(m, model_last(m, c));

	if (s->up ? last == ULONG_MAX : first == 0)
		return m->n;
	return wanted(m, s, s->up ? last + 1 : first - 1, limit);
}

/* Some steps, with the state active or paused between them. */
static void search(struct run *r, const struct op *op)
{
	const struct search *s = &searches[op->how % 8];
	const struct model *m = &r->model;
	MA_STATE(mas, &r->tree, op->index, op->index);
	unsigned int at = cell_of(m, op->index), c;

	TELL("mas_set(&mas, %luUL);", op->index);
	for (unsigned int i = 0; i < op->steps; i++) {
		unsigned long index = mas.index, last = mas.last;
		void *entry;

		c = i || s->after ? wanted_after(m, s, at, op->limit)
				  : wanted(m, s, op->index, op->limit);
		TELL("%s(&mas, %luUL);", s->name, op->limit);
		entry = s->call(&mas, op->limit);
		if (c == m->n) {
			CHECK(!entry);
			CHECK(mas.status == (s->up ? ma_overflow : ma_underflow));
			if (i || !s->after)
				CHECK(mas.index == index && mas.last == last);
			return;
		}
		check_range(r, &mas, entry, c);
		at = c;
		if (op->shape < 4) {
			TELL("mas_pause(&mas);");
			mas_pause(&mas);
		}
	}
}

/* --- without a state ------------------------------------------------------------------------- */

static void mt_search(struct run *r, const struct op *op)
{
	static const struct search up = {.up = true}, down = {.up = false};
	const struct model *m = &r->model;
	unsigned int c = wanted(m, &up, op->index, op->limit);
	unsigned long at = op->index;
	void *entry;

	TELL("at = %luUL;\n\tmt_find(&mt, &at, %luUL);", at, op->limit);
	entry = mt_find(&r->tree, &at, op->limit);
	CHECK(entry == (c < m->n ? m->cells[c].entry : NULL));
	CHECK(at == (c < m->n ? cell_max(m, model_last(m, c)) + 1 : op->index));
	TELL("mt_find_after(&mt, &at, %luUL);", op->limit);
	c = at ? wanted(m, &up, at, op->limit) : m->n;
	entry = mt_find_after(&r->tree, &at, op->limit);
	CHECK(entry == (c < m->n ? m->cells[c].entry : NULL));
	c = wanted_after(m, &up, cell_of(m, op->index), op->limit);
	TELL("mt_next(&mt, %luUL, %luUL);", op->index, op->limit);
	entry = mt_next(&r->tree, op->index, op->limit);
	CHECK(entry == (c < m->n ? m->cells[c].entry : NULL));
	c = wanted_after(m, &down, cell_of(m, op->index), op->limit);
	TELL("mt_prev(&mt, %luUL, %luUL);", op->index, op->limit);
	entry = mt_prev(&r->tree, op->index, op->limit);
	CHECK(entry == (c < m->n ? m->cells[c].entry : NULL));
}

/* Over some ranges, of which each third is erased and each third stored anew on the way. */
static void iterate(struct run *r, const struct op *op)
{
	struct model *m = &r->model;
	MA_STATE(mas, &r->tree, op->index, op->index);
	unsigned int c = model_used(m, cell_of(m, op->index), true), n = 0;
	void *entry;

	TELL("mas_set(&mas, %luUL);", op->index);
	for (; n < 40; n++) {
		unsigned int last;

		TELL("mas_find(&mas, ULONG_MAX);");
		entry = mas_find(&mas, ULONG_MAX);
		if (c == m->n) {
			CHECK(!entry);
			return;
		}
		check_range(r, &mas, entry, c);
		last = model_last(m, c);
		if ((n + op->how) % 3 < 2) {
			entry = (n + op->how) % 3 ? (void *)(4096 + 16 * (m->stores + 1)) : NULL;
			TELL("mas_store_gfp(&mas, (void *)0x%lx, GFP_KERNEL);",
			     (unsigned long)entry);
			CHECK(mas_store_gfp(&mas, entry, GFP_KERNEL) == 0);
			model_store(m, model_first(m, c), last, entry);
		}
		c = last < m->n - 1 ? model_used(m, last + 1, true) : m->n;
	}
}

void do_search(struct run *r, const struct op *op)
{
	if (op->kind == OP_LOOK)
		look(r, op);
	else if (op->kind == OP_SEARCH)
		search(r, op);
	else if (op->kind == OP_MT_FIND)
		mt_search(r, op);
	else
		iterate(r, op);
}
