/* SPDX-License-Identifier: MIT */
/* Stores, erasures and gaps, as operations; see operations.h. Searches: searches.c. */
#include "operations.h"

#include <errno.h>
#include <inttypes.h>

#include "kit/random.h"
#include "searches.h"

/* An index in the model's cells, now and then next to an end of all indices. */
static unsigned long make_index(uint64_t *random, const struct model *m)
{
	unsigned int c = random_below(random, m->n), what = random_below(random, 32);

	if (what < 2)
		return what ? 0 : ULONG_MAX;
	if (what < 10)
		return cell_max(m, c);
	return cell_min(m, c) + random_next(random) % (m->width < 5 ? m->width : 5);
}

void op_make(struct op *op, uint64_t *random, const struct model *m, const struct taste *taste)
{
	static const struct {
		unsigned char kind, share; /* of 1000 */
	} shares[] = {{OP_STORE, 250}, {OP_STORE, 250},	 {OP_ERASE, 90},  {OP_INSERT, 80},
		      {OP_ALLOC, 50},  {OP_CYCLIC, 30},	 {OP_GAP, 80},	  {OP_LOOK, 60},
		      {OP_SEARCH, 80}, {OP_MT_FIND, 20}, {OP_ITERATE, 8}, {OP_COPY, 1},
		      {OP_DESTROY, 1}};
	unsigned int i = 0, dice = random_below(random, 1000);

	while (dice >= shares[i].share)
		dice -= shares[i++].share;
	op->kind = shares[i].kind;
	op->how = (unsigned char)random_below(random, 64);
	op->shape = (unsigned char)random_below(random, 16);
	op->steps = (unsigned char)(1 + random_below(random, 4));
	op->with_entry = random_below(random, 100) < taste->fill;
	op->flag = random_below(random, 2);
	op->refused = random_below(random, 100) < taste->refuse;
	op->a = random_below(random, m->n);
	op->b = op->a + random_below(random, 1 + random_below(random, taste->span));
	if (op->b >= m->n)
		op->b = m->n - 1;
	op->size = 1 +
		   random_next(random) % (random_below(random, 8) ? 4 * m->width : m->n * m->width);
	op->index = make_index(random, m);
	op->limit = random_below(random, 3) ? make_index(random, m) : op->flag ? 0 : ULONG_MAX;
}

/* --- stores ---------------------------------------------------------------------------------- */

static void *new_entry(const struct run *r)
{
	return (void *)(4096 + 16 * (r->model.stores + 1));
}

/* Store the requested range, or a whole range, or one that grows over its end or beginning. */
static void *shape_store(const struct run *r, const struct op *op, unsigned int *a, unsigned int *b)
{
	const struct model *m = &r->model;
	void *entry = op->with_entry ? new_entry(r) : NULL;

	if (op->shape >= 4)
		return entry;
	*a = model_first(m, *a);
	*b = model_last(m, *a);
	if (op->shape == 0) {
		entry = m->cells[*a].entry;
		*b += *b < m->n - 1;
	} else if (op->shape == 1) {
		entry = m->cells[*b].entry;
		*a -= *a > 0;
	}
	return entry;
}

/* Returns whether a call failed that was refused nodes. */
static bool is_refused(const struct run *r, int error)
{
	CHECK(!error || (r->refuse && error == -ENOMEM));
	return error;
}

/* NULL is stored over exactly one range. */
static bool is_erase(const struct run *r, const void *entry, unsigned int a, unsigned int b)
{
	const struct model *m = &r->model;

	return !entry && m->cells[a].entry && a == model_first(m, a) && b == model_last(m, a);
}

/* Returns false if it was refused nodes. */
static bool store_by(struct run *r, unsigned int how, struct ma_state *mas, void *entry, void *old)
{
	int error;

	TELL("mas_set_range(&mas, %luUL, %luUL);", mas->index, mas->last);
	if (how == 1) {
		TELL("mas_preallocate(&mas, (void *)0x%lx, GFP_KERNEL);", (unsigned long)entry);
		if (is_refused(r, mas_preallocate(mas, entry, GFP_KERNEL)))
			return false;
		TELL("mas_store_prealloc(&mas, (void *)0x%lx);", (unsigned long)entry);
		mas_store_prealloc(mas, entry);
		error = mas_error(mas);
	} else if (how == 2) {
		TELL("mas_store(&mas, (void *)0x%lx);", (unsigned long)entry);
		CHECK(mas_store(mas, entry) == old);
		error = mas_error(mas);
	} else {
		TELL("mas_store_gfp(&mas, (void *)0x%lx, GFP_KERNEL);", (unsigned long)entry);
		error = mas_store_gfp(mas, entry, GFP_KERNEL);
	}
	CHECK(!mas->sheaf && !mas->alloc);
	return !is_refused(r, error);
}

static void do_store(struct run *r, const struct op *op)
{
	struct model *m = &r->model;
	unsigned int a = op->a, b = op->b;
	void *entry = shape_store(r, op, &a, &b);
	unsigned long first = cell_min(m, a), last = cell_max(m, b);
	struct place place = {first, last, ma_start};
	bool had_nodes = mt_height(&r->tree) > 0, erases = is_erase(r, entry, a, b);
	MA_STATE(mas, &r->tree, first, last);

	if (op->how % 4 == 0) {
		TELL("mtree_store_range(&mt, %luUL, %luUL, (void *)0x%lx, GFP_KERNEL);", first,
		     last, (unsigned long)entry);
		if (is_refused(r, mtree_store_range(&r->tree, first, last, entry, GFP_KERNEL)))
			CHECK(!erases);
		else
			model_store(m, a, b, entry);
		return;
	}
	if (!store_by(r, op->how % 4, &mas, entry, m->cells[a].entry)) {
		CHECK(!erases || op->how % 4 == 1);
		return;
	}
	model_store(m, a, b, entry);
	place_store(r, &place, had_nodes, entry);
	check_place(r, &mas, &place);
	if (op->how >= 32)
		search_on(r, &mas, &place, op);
}

static void do_erase(struct run *r, const struct op *op)
{
	struct model *m = &r->model;
	unsigned int c = cell_of(m, op->index);
	unsigned int first = model_first(m, c), last = model_last(m, c);
	struct place place = {op->index, op->index, ma_start};
	bool had_nodes = mt_height(&r->tree) > 0;
	MA_STATE(mas, &r->tree, op->index, op->index);
	void *entry = m->cells[c].entry;

	place_walk(r, &place, op->index);
	if (!entry) /* its range and no place, but for that there may be none */
		place = (struct place){op->index, op->index,
				       place.status == ma_none ? ma_none : ma_start};
	if (op->flag) {
		TELL("mtree_erase(&mt, %luUL);", op->index);
		CHECK(mtree_erase(&r->tree, op->index) == entry);
	} else {
		TELL("mas_set(&mas, %luUL);\n\tmas_erase(&mas);", op->index);
		CHECK(mas_erase(&mas) == entry);
	}
	if (entry) {
		model_store(m, first, last, NULL);
		place_store(r, &place, had_nodes, NULL);
	}
	if (op->flag)
		return;
	check_place(r, &mas, &place);
	search_on(r, &mas, &place, op);
}

static void do_insert(struct run *r, const struct op *op)
{
	struct model *m = &r->model;
	unsigned long first = cell_min(m, op->a), last = cell_max(m, op->b);
	bool taken = model_used(m, op->a, true) <= op->b;
	void *entry = new_entry(r);
	int error;

	TELL("mtree_insert_range(&mt, %luUL, %luUL, (void *)0x%lx, GFP_KERNEL);", first, last,
	     (unsigned long)entry);
	error = mtree_insert_range(&r->tree, first, last, entry, GFP_KERNEL);
	if (taken)
		CHECK(error == -EEXIST);
	else if (!is_refused(r, error))
		model_store(m, op->a, op->b, entry);
}

/* --- free indices ---------------------------------------------------------------------------- */

static bool keeps_gaps(const struct run *r)
{
	return r->tree.ma_flags & MT_FLAGS_ALLOC_RANGE;
}

static void bounds(const struct op *op, unsigned long *min, unsigned long *max)
{
	bool ordered = op->index <= op->limit;

	*min = op->shape < 6 ? 0 : ordered ? op->index : op->limit;
	*max = op->shape < 6 ? ULONG_MAX : ordered ? op->limit : op->index;
}

/* Whole cells are free, so search for a whole cell: the model knows no others. */
static void do_alloc(struct run *r, const struct op *op)
{
	struct model *m = &r->model;
	unsigned long min = cell_min(m, op->a), max = cell_max(m, op->b), size = m->width, start;
	unsigned long at = 0;
	void *entry = new_entry(r);
	bool fits;
	int error;

	if (op->shape < 8)
		max = m->n > 1 ? cell_max(m, m->n - 2) : max;
	if (op->a == 0 || op->b == m->n - 1 || min > max)
		return; /* these cells are wider */
	fits = model_gap(m, min, max, size, op->flag, &start);
	TELL("mtree_alloc_%s(&mt, &at, (void *)0x%lx, %luUL, %luUL, %luUL, GFP_KERNEL);",
	     op->flag ? "rrange" : "range", (unsigned long)entry, size, min, max);
	error = (op->flag ? mtree_alloc_rrange : mtree_alloc_range)(&r->tree, &at, entry, size, min,
								    max, GFP_KERNEL);
	if (fits && keeps_gaps(r) && is_refused(r, error))
		return;
	CHECK(error == (!keeps_gaps(r) ? -EINVAL : fits ? 0 : -EBUSY));
	if (error)
		return;
	CHECK(at == start);
	model_store(m, cell_of(m, at), cell_of(m, at), entry);
}

/* If a cell is one index. */
static void do_cyclic(struct run *r, const struct op *op)
{
	struct model *m = &r->model;
	unsigned long lo = cell_min(m, op->a), hi = cell_min(m, op->b), at = 0, start;
	unsigned long from = r->next > lo ? r->next : lo;
	bool wrapped = r->tree.ma_flags & MT_FLAGS_ALLOC_WRAPPED, fits;
	void *entry = new_entry(r);
	int error;

	if (m->width != 1 || op->a == 0 || op->b == m->n - 1)
		return;
	TELL("mtree_alloc_cyclic(&mt, &at, (void *)0x%lx, %luUL, %luUL, &next, GFP_KERNEL);",
	     (unsigned long)entry, lo, hi);
	error = mtree_alloc_cyclic(&r->tree, &at, entry, lo, hi, &r->next, GFP_KERNEL);
	fits = from <= hi && model_gap(m, from, hi, 1, false, &start);
	if (!fits && from > lo) {
		wrapped = true;
		fits = model_gap(m, lo, from - 1 < hi ? from - 1 : hi, 1, false, &start);
	}
	if (fits && keeps_gaps(r) && error < 0 && is_refused(r, error))
		return;
	CHECK(error == (!keeps_gaps(r) ? -EINVAL : fits ? wrapped : -EBUSY));
	if (error < 0)
		return;
	CHECK(at == start && r->next == start + 1);
	model_store(m, cell_of(m, at), cell_of(m, at), entry);
}

static void do_gap(struct run *r, const struct op *op)
{
	const struct model *m = &r->model;
	unsigned long min, max, start = 0;
	MA_STATE(mas, &r->tree, 0, 0);
	bool fits;
	int error;

	bounds(op, &min, &max);
	fits = model_gap(m, min, max, op->size, op->flag, &start);
	TELL("mas_empty_area%s(&mas, %luUL, %luUL, %luUL);", op->flag ? "_rev" : "", min, max,
	     op->size);
	error = (op->flag ? mas_empty_area_rev : mas_empty_area)(&mas, min, max, op->size);
	if (!keeps_gaps(r) || max - min < op->size - 1)
		CHECK(error == -EINVAL);
	else
		CHECK(error == (fits ? 0 : -EBUSY));
	if (!error)
		CHECK(mas.index == start && mas.last == start + op->size - 1);
}

/* --- whole trees ----------------------------------------------------------------------------- */

static void do_copy(struct run *r)
{
	struct maple_tree old = r->tree;

	mt_init_flags(&r->tree, old.ma_flags & ~MT_FLAGS_ALLOC_WRAPPED);
	TELL("mtree_dup(&mt, &copy, GFP_KERNEL);");
	if (is_refused(r, mtree_dup(&old, &r->tree, GFP_KERNEL))) {
		CHECK(mtree_empty(&r->tree));
		r->tree = old;
	} else {
		mtree_destroy(&old);
	}
	check_all(r);
}

static void do_destroy(struct run *r)
{
	TELL("mtree_destroy(&mt);");
	mtree_destroy(&r->tree);
	CHECK(mtree_empty(&r->tree));
	model_store(&r->model, 0, r->model.n - 1, NULL);
}

void op_do(struct run *r, const struct op *op)
{
	switch ((enum op_kind)op->kind) {
	case OP_STORE:
		do_store(r, op);
		break;
	case OP_ERASE:
		do_erase(r, op);
		break;
	case OP_INSERT:
		do_insert(r, op);
		break;
	case OP_ALLOC:
		do_alloc(r, op);
		break;
	case OP_CYCLIC:
		do_cyclic(r, op);
		break;
	case OP_GAP:
		do_gap(r, op);
		break;
	case OP_COPY:
		do_copy(r);
		break;
	case OP_DESTROY:
		do_destroy(r);
		break;
	default:
		do_search(r, op);
	}
}
