/* SPDX-License-Identifier: MIT */
/*
 * The expected state after each call, by the model: written from the documentation, one line per
 * case, without regard to leaves. See places.h.
 */
#include "places.h"

#include "searches.h"

static bool has_nodes(const struct run *r)
{
	return mt_height(&r->tree) > 0;
}

static void *found(struct place *p, unsigned long index, unsigned long last,
		   enum maple_status status, void *entry)
{
	*p = (struct place){index, last, status};
	return entry;
}

static void *ended(struct place *p, enum maple_status status)
{
	p->status = status;
	return NULL;
}

void *place_walk(const struct run *r, struct place *p, unsigned long index)
{
	const struct model *m = &r->model;
	unsigned int c = cell_of(m, index);
	void *single = m->cells[0].entry;

	if (has_nodes(r))
		return found(p, cell_min(m, model_first(m, c)), cell_max(m, model_last(m, c)),
			     ma_active, m->cells[c].entry);
	if (single && index == 0)
		return found(p, 0, 0, ma_root, single);
	return found(p, single ? 1 : 0, ULONG_MAX, ma_none, NULL);
}

/* --- from a range to the next ---------------------------------------------------------------- */

static void *go_up(const struct run *r, struct place *p, unsigned long max, bool gaps)
{
	while (p->last < max) {
		void *entry = place_walk(r, p, p->last + 1);

		if (entry || gaps || p->status == ma_none)
			return entry;
	}
	return ended(p, ma_overflow);
}

static void *go_down(const struct run *r, struct place *p, unsigned long min, bool gaps)
{
	while (p->index > min) {
		void *entry = place_walk(r, p, p->index - 1);

		if (entry || gaps || (p->status == ma_none && p->index == 0))
			return entry;
	}
	return ended(p, ma_underflow);
}

/*
 * The entry at the index, or the first one after the gap: no call stops at the gap where it begins.
 */
static void *look_up(const struct run *r, struct place *p, unsigned long index, unsigned long max)
{
	void *entry = place_walk(r, p, index);

	return entry || p->status == ma_none ? entry : go_up(r, p, max, false);
}

static void *look_down(const struct run *r, struct place *p, unsigned long index, unsigned long min)
{
	void *entry = place_walk(r, p, index);

	return entry || (p->status == ma_none && p->index == 0) ? entry : go_down(r, p, min, false);
}

/* --- the calls ------------------------------------------------------------------------------- */

static void *find(const struct run *r, struct place *p, unsigned long max, bool gaps)
{
	switch (p->status) {
	case ma_start:
		return p->index > max ? NULL : look_up(r, p, p->index, max);
	case ma_underflow:
		return p->index >= max ? ended(p, ma_overflow) : look_up(r, p, p->index, max);
	default:
		break;
	}
	if (p->last >= max)
		return NULL;
	switch (p->status) {
	case ma_active:
	case ma_root:
		return go_up(r, p, max, gaps);
	case ma_pause:
		return look_up(r, p, p->last + 1, max);
	case ma_overflow:
		return look_up(r, p, p->index, max);
	default: /* ma_none */
		return look_up(r, p, p->last, max);
	}
}

static void *find_rev(const struct run *r, struct place *p, unsigned long min, bool gaps)
{
	switch (p->status) {
	case ma_start:
		return p->index < min ? NULL : look_down(r, p, p->index, min);
	case ma_none:
		return p->index <= min ? NULL : look_down(r, p, p->index, min);
	case ma_root:
		return ended(p, ma_none);
	default:
		break;
	}
	if (p->index <= min)
		return ended(p, ma_underflow);
	return p->status == ma_pause ? look_down(r, p, p->index - 1, min)
				     : go_down(r, p, min, gaps);
}

static void *next(const struct run *r, struct place *p, unsigned long max, bool gaps)
{
	enum maple_status before = p->status;
	void *entry = NULL;

	if (p->last >= max)
		return ended(p, ma_overflow);
	if (before == ma_start || before == ma_pause || before == ma_none || before == ma_underflow)
		entry = place_walk(r, p, p->index);
	if (before == ma_underflow && entry)
		return entry;
	return p->status == ma_none ? NULL : go_up(r, p, max, gaps);
}

static void *prev(const struct run *r, struct place *p, unsigned long min, bool gaps)
{
	enum maple_status before = p->status;
	void *entry = NULL;

	if (p->index <= min)
		return ended(p, ma_underflow);
	if (before == ma_start || before == ma_pause || before == ma_none || before == ma_overflow)
		entry = place_walk(r, p, p->index);
	if (before == ma_overflow && entry)
		return entry;
	return p->status == ma_none && p->index == 0 ? NULL : go_down(r, p, min, gaps);
}

static void *walk(struct ma_state *mas, unsigned long limit)
{
	(void)limit;
	return mas_walk(mas);
}

static void *walked(const struct run *r, struct place *p, unsigned long limit, bool gaps)
{
	(void)limit, (void)gaps;
	return place_walk(r, p, p->index);
}

const struct search searches[NR_SEARCHES] = {
	{"mas_find", mas_find, find, false},
	{"mas_find_range", mas_find_range, find, true},
	{"mas_find_rev", mas_find_rev, find_rev, false},
	{"mas_find_range_rev", mas_find_range_rev, find_rev, true},
	{"mas_next", mas_next, next, false},
	{"mas_next_range", mas_next_range, next, true},
	{"mas_prev", mas_prev, prev, false},
	{"mas_prev_range", mas_prev_range, prev, true},
	{"mas_walk", walk, walked, false},
};

/* --- stores ---------------------------------------------------------------------------------- */

void place_store(const struct run *r, struct place *p, bool had_nodes, const void *entry)
{
	if (has_nodes(r)) {
		p->status = ma_active;
		if (!entry)
			place_walk(r, p, p->index);
	} else {
		p->status = entry ? ma_root : ma_start;
		if (had_nodes)
			*p = (struct place){0, ULONG_MAX, ma_start};
	}
}

void check_place(const struct run *r, const struct ma_state *mas, const struct place *p)
{
	if (mas->index == p->index && mas->last == p->last && mas->status == p->status)
		return;
	fprintf(stderr,
		"state %lu ... %lu, status %d; it has to be %lu ... %lu, status %d, at step %u\n",
		mas->index, mas->last, mas->status, p->index, p->last, p->status, r->step);
	exit(1);
}
