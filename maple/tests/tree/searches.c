/* SPDX-License-Identifier: MIT */
/* Loads, walks, searches and iterations compared with the model; see searches.h. */
#include "searches.h"
#include "kit/random.h"

/* The state is at this cell's range or gap. */
static void check_range(struct run *r, const struct ma_state *mas, const void *entry,
			unsigned int c)
{
	const struct model *m = &r->model;

	CHECK(c < m->n);
	CHECK(entry == m->cells[c].entry);
	CHECK(mas->index == cell_min(m, model_first(m, c)));
	CHECK(mas->last == cell_max(m, model_last(m, c)));
}

/* Each range and gap in order; the state is at the first, and moves on by this call. */
static void check_ranges(struct run *r, bool up)
{
	const struct model *m = &r->model;
	MA_STATE(mas, &r->tree, 0, 0);
	unsigned int c = up ? 0 : m->n - 1;
	void *entry;

	mas_set(&mas, up ? 0 : ULONG_MAX);
	for (entry = mas_walk(&mas);;
	     entry = up ? mas_next_range(&mas, ULONG_MAX) : mas_prev_range(&mas, 0)) {
		if (c == m->n || mas.status == ma_none)
			break;
		check_range(r, &mas, entry, c);
		c = up ? model_last(m, c) + 1 : model_first(m, c) - 1;
		if (!up && c > m->n) /* below 0 */
			c = m->n;
	}
	CHECK(!entry && (mas.status == ma_none || mas.status == (up ? ma_overflow : ma_underflow)));
}

void check_all(struct run *r)
{
	const struct model *m = &r->model;
	MA_STATE(mas, &r->tree, 0, 0);
	unsigned int c = 0;
	void *entry;

	CHECK(mt_validate(&r->tree) == 0);
	check_ranges(r, true);
	check_ranges(r, false);
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
	struct place place = {op->index, op->index, ma_start};
	MA_STATE(mas, &r->tree, op->index, op->index);

	TELL("mtree_load(&mt, %luUL);", op->index);
	CHECK(mtree_load(&r->tree, op->index) == m->cells[c].entry);
	TELL("mas_set(&mas, %luUL);\n\tmas_walk(&mas);", op->index);
	CHECK(mas_walk(&mas) == place_walk(r, &place, op->index));
	check_place(r, &mas, &place);
}

/* --- steps of searches ----------------------------------------------------------------------- */

void search_on(struct run *r, struct ma_state *mas, struct place *place, const struct op *op)
{
	uint64_t random = op->size * 2 + 1;

	random_next(&random);
	for (unsigned int i = 0; i < op->steps; i++) {
		unsigned int which = random_below(&random, 2) ? op->how : random_below(&random, 64);
		const struct search *s = &searches[which %= NR_SEARCHES];
		unsigned long limit = random_below(&random, 3)	 ? op->limit
				      : random_below(&random, 2) ? ULONG_MAX
								 : 0;
		void *entry;

		if (which == SEARCH_WALK)
			TELL("mas_walk(&mas);");
		else
			TELL("%s(&mas, %luUL);", s->name, limit);
		entry = s->call(mas, limit);
		CHECK(entry == s->wanted(r, place, limit, s->gaps));
		check_place(r, mas, place);
		CHECK(mas_is_active(mas) == (place->status == ma_active));
		if (random_below(&random, 8) == 0) {
			TELL("mas_pause(&mas);");
			mas_pause(mas);
			place->status = ma_pause;
		}
	}
}

static void search(struct run *r, const struct op *op)
{
	struct place place = {op->index, op->index, ma_start};
	MA_STATE(mas, &r->tree, op->index, op->index);

	TELL("mas_set(&mas, %luUL);", op->index);
	search_on(r, &mas, &place, op);
}

/* --- without a state ------------------------------------------------------------------------- */

static void *wanted(const struct run *r, enum search_number which, unsigned long *index,
		    unsigned long limit)
{
	struct place place = {*index, *index, ma_start};
	void *entry = searches[which].wanted(r, &place, limit, false);

	if (entry)
		*index = place.last + 1;
	return entry;
}

static void mt_search(struct run *r, const struct op *op)
{
	unsigned long at = op->index, next = op->index;

	TELL("at = %luUL;\n\tmt_find(&mt, &at, %luUL);", at, op->limit);
	CHECK(mt_find(&r->tree, &at, op->limit) == wanted(r, SEARCH_FIND, &next, op->limit));
	CHECK(at == next);
	TELL("mt_find_after(&mt, &at, %luUL);", op->limit);
	CHECK(mt_find_after(&r->tree, &at, op->limit) ==
	      (next ? wanted(r, SEARCH_FIND, &next, op->limit) : NULL));
	CHECK(at == next);
	at = op->index;
	TELL("mt_next(&mt, %luUL, %luUL);", op->index, op->limit);
	CHECK(mt_next(&r->tree, op->index, op->limit) == wanted(r, SEARCH_NEXT, &at, op->limit));
	at = op->index;
	TELL("mt_prev(&mt, %luUL, %luUL);", op->index, op->limit);
	CHECK(mt_prev(&r->tree, op->index, op->limit) == wanted(r, SEARCH_PREV, &at, op->limit));
}

/* Over some ranges; on the way, every third one is erased and every third one stored again. */
static void iterate(struct run *r, const struct op *op)
{
	struct model *m = &r->model;
	struct place place = {op->index, op->index, ma_start};
	MA_STATE(mas, &r->tree, op->index, op->index);

	TELL("mas_set(&mas, %luUL);", op->index);
	for (unsigned int n = 0; n < 40; n++) {
		bool had_nodes = mt_height(&r->tree) > 0;
		unsigned int first, last;
		void *entry;

		TELL("mas_find(&mas, ULONG_MAX);");
		entry = mas_find(&mas, ULONG_MAX);
		CHECK(entry == searches[SEARCH_FIND].wanted(r, &place, ULONG_MAX, false));
		check_place(r, &mas, &place);
		if (!entry)
			return;
		if ((n + op->how) % 3 == 2)
			continue;
		first = cell_of(m, mas.index);
		last = cell_of(m, mas.last);
		entry = (n + op->how) % 3 ? (void *)(4096 + 16 * (m->stores + 1)) : NULL;
		TELL("mas_store_gfp(&mas, (void *)0x%lx, GFP_KERNEL);", (unsigned long)entry);
		CHECK(mas_store_gfp(&mas, entry, GFP_KERNEL) == 0);
		model_store(m, first, last, entry);
		place_store(r, &place, had_nodes, entry);
		check_place(r, &mas, &place);
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
