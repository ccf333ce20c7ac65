/* SPDX-License-Identifier: MIT */
/* Arrays of cells; see cells.h. */
#include "percpu/barn/cells.h"

#include "os/assert.h"
#include "percpu/barn/budget.h"

/* Put a cell in transit if it still holds the value that was read. Returns the sheaf, or NULL. */
static struct sheaf *begin_at(const struct barn_search *s, uintptr_t *at, uintptr_t cell)
{
	struct sheaf *sheaf = barn_sheaf(cell);

	if (!os_cmpxchg(at, &cell, (uintptr_t)sheaf | barn_transit(s->cache)))
		return NULL;
	s->found->at = at;
	return sheaf;
}

static bool is_wanted(uintptr_t cell, bool full)
{
	return cell && !(cell & BARN_TRANSIT) && full == (bool)(cell & BARN_FULL);
}

static struct sheaf *find_cell(const struct barn_search *s, const struct cells *cells)
{
	unsigned int n = cells->n, top = os_load_relaxed(cells->top);

	for (unsigned int k = 0; k < n; k++) {
		unsigned int i = s->full ? top + k : top + n - 1 - k;
		uintptr_t cell;
		struct sheaf *sheaf;

		i = i < n ? i : i - n;
		cell = os_load_relaxed(&cells->at[i]);
		if (!is_wanted(cell, s->full))
			continue;
		if (cells->of_other && !(cell & BARN_SEEN)) {
			if (!s->found->saw)
				s->found->saw = cells->at;
			continue;
		}
		sheaf = begin_at(s, &cells->at[i], cell);
		if (!sheaf)
			continue;
		s->found->may_be_full = i < cells->limit;
		os_store_relaxed(cells->top, (uint16_t)(s->full ? i + 1 : i));
		return sheaf;
	}
	return NULL;
}

/* SHEAF-H1: no cell holds a sheaf that a thread has in hand. Cells in transit only remember one. */
static __attribute__((unused)) bool is_in_no_cell(const struct cells *cells,
						  const struct sheaf *sheaf)
{
	for (unsigned int i = 0; i < cells->n; i++) {
		uintptr_t cell = os_peek(&cells->at[i]);

		if (!(cell & BARN_TRANSIT) && barn_sheaf(cell) == sheaf)
			return false;
	}
	return true;
}

/* Put it into a free cell, or else into the cell of an empty sheaf, which is taken out. */
static bool put_full(const struct cells *cells, struct sheaf *sheaf, struct sheaf **displaced)
{
	uintptr_t full = (uintptr_t)sheaf | BARN_FULL, empty = 0;
	unsigned int at = 0;

	/* SHEAF-H1, SHEAF-H4, PREFILL-F3 */
	os_assert(sheaf->size == sheaf->capacity && is_in_no_cell(cells, sheaf));
	for (unsigned int i = 0; i < cells->limit && i < cells->n; i++) {
		uintptr_t cell = os_load_relaxed(&cells->at[i]);

		if (!cell && os_cmpxchg(&cells->at[i], &cell, full))
			return true;
		if (!(cell & (BARN_FULL | BARN_TRANSIT))) {
			empty = cell;
			at = i;
		}
	}
	if (!empty || !os_cmpxchg(&cells->at[at], &empty, full))
		return false;
	*displaced = barn_sheaf(empty);
	return true;
}

void cells_mark_seen(uintptr_t *at, bool full)
{
	for (unsigned int i = 0; i < barn_shard_cells(); i++) {
		uintptr_t cell = os_load_relaxed(&at[i]);

		if (is_wanted(cell, full) && !(cell & BARN_SEEN))
			os_cmpxchg(&at[i], &cell, cell | BARN_SEEN);
	}
}

bool cells_put_empty(const struct cells *cells, struct sheaf *sheaf, bool below)
{
	/* SHEAF-H1, PREFILL-F3 */
	os_assert(!sheaf->size && !(sheaf->capacity & SHEAF_OVERSIZE) &&
		  is_in_no_cell(cells, sheaf));
	for (unsigned int i = 0; i < cells->limit && i < cells->n; i++) {
		uintptr_t *at = &cells->at[below ? i : cells->n - 1 - i], none = 0;

		if (!os_load_relaxed(at) && os_cmpxchg(at, &none, (uintptr_t)sheaf))
			return true;
	}
	return false;
}

struct sheaf *cells_search(const struct barn_search *s, const struct cells *cells)
{
	if (s->put && s->put->size)
		return put_full(cells, s->put, s->displaced) ? s->put : NULL;
	if (s->put)
		return cells_put_empty(cells, s->put, false) ? s->put : NULL;
	return find_cell(s, cells);
}

struct sheaf *barn_take_partial(struct sheaf_cache *cache)
{
	uintptr_t *at = barn_partial_cell(cache, os_cpu()), cell = os_load_relaxed(at);

	return !(cell & BARN_TRANSIT) && cell && os_cmpxchg(at, &cell, 0) ? barn_sheaf(cell) : NULL;
}

bool barn_put_partial(struct sheaf_cache *cache, struct sheaf *sheaf, struct sheaf **other)
{
	unsigned int cpu = os_cpu();
	uintptr_t *at = barn_partial_cell(cache, cpu), cell = os_load_relaxed(at);

	/* SHEAF-H4, BARN-N3, PREFILL-F3 */
	os_assert(sheaf->size && sheaf->size < sheaf->capacity && barn_sheaf(os_peek(at)) != sheaf);
	if (!os_load_relaxed(&cache->shard_full) || sheaf_budget_is_over() || !barn_use(cache, cpu))
		return false;
	while (!(cell & BARN_TRANSIT))
		if (os_cmpxchg(at, &cell, cell ? 0 : (uintptr_t)sheaf)) {
			*other = barn_sheaf(cell);
			return true;
		}
	return false;
}

bool cells_have_room(const struct cells *cells)
{
	os_assert(cells->limit <= cells->n);
	for (unsigned int i = 0; i < cells->limit; i++)
		if (!(os_load_relaxed(&cells->at[i]) & (BARN_FULL | BARN_TRANSIT)))
			return true;
	return false;
}
