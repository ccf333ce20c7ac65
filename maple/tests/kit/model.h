/* SPDX-License-Identifier: MIT */
/*
 * A plain model of a tree of ranges: a row of cells. Each cell is a fixed interval of indices, with
 * an entry and the number of the store that wrote it; neighbouring cells written by the same store
 * are one range.
 */
#ifndef TESTS_MAPLE_MODEL_H
#define TESTS_MAPLE_MODEL_H

#include <sheaf/maple_tree.h>
#include <stdlib.h>

struct cell {
	void *entry;
	unsigned long store;
};

struct model {
	unsigned int n;
	unsigned long base;  /* cell c begins at base + c * width, the first at 0 */
	unsigned long width; /* and the last extends to ULONG_MAX */
	unsigned long stores;
	struct cell *cells;
};

static inline unsigned long cell_min(const struct model *m, unsigned int c)
{
	return c ? m->base + c * m->width : 0;
}

static inline unsigned long cell_max(const struct model *m, unsigned int c)
{
	return c == m->n - 1 ? ULONG_MAX : m->base + (c + 1) * m->width - 1;
}

static inline unsigned int cell_of(const struct model *m, unsigned long index)
{
	unsigned long c = index < m->base ? 0 : (index - m->base) / m->width;

	return c < m->n ? (unsigned int)c : m->n - 1;
}

static inline void model_init(struct model *m, unsigned int n, unsigned long width)
{
	m->n = n;
	m->base = 0;
	m->width = width;
	m->stores = 0;
	m->cells = calloc(n, sizeof(*m->cells));
}

static inline void model_store(struct model *m, unsigned int a, unsigned int b, void *entry)
{
	m->stores++;
	for (unsigned int c = a; c <= b; c++)
		m->cells[c] = (struct cell){entry, entry ? m->stores : 0};
}

/* The cells of the range at c: first and last of them. */
static inline unsigned int model_first(const struct model *m, unsigned int c)
{
	while (c > 0 && m->cells[c - 1].store == m->cells[c].store)
		c--;
	return c;
}

static inline unsigned int model_last(const struct model *m, unsigned int c)
{
	while (c < m->n - 1 && m->cells[c + 1].store == m->cells[c].store)
		c++;
	return c;
}

/* The first (last) cell with an entry from c on up (down), or n. */
static inline unsigned int model_used(const struct model *m, unsigned int c, bool up)
{
	while (c < m->n && !m->cells[c].entry)
		c = up ? c + 1 : c - 1; /* below 0 it is beyond n */
	return c < m->n ? c : m->n;
}

/* The lowest (highest) free `size` indices in min ... max; false if there are none. */
static inline bool model_gap(const struct model *m, unsigned long min, unsigned long max,
			     unsigned long size, bool highest, unsigned long *start)
{
	bool found = false;

	for (unsigned int c = 0; c < m->n; c = model_last(m, c) + 1) {
		unsigned long first = cell_min(m, c), last = cell_max(m, model_last(m, c));

		if (m->cells[c].entry || last < min || first > max)
			continue;
		if (first < min)
			first = min;
		if (last > max)
			last = max;
		if (last - first < size - 1)
			continue;
		*start = highest ? last - (size - 1) : first;
		found = true;
		if (!highest)
			break;
	}
	return found;
}

#endif
