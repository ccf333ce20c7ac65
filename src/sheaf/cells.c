/* SPDX-License-Identifier: MIT */
/* Arrays of cells; see cells.h. */
#include "sheaf/cells.h"

#include "os/atomic.h"

/* Put a cell in transit if it still holds what was read; the sheaf, or NULL. */
static struct sheaf *begin(const struct barn_search *s, uintptr_t *at, uintptr_t cell)
{
	uintptr_t phase = os_load_relaxed(&s->cache->phase) & 1 ? BARN_PHASE : 0;

	if (!os_cmpxchg(at, &cell, (cell & ~BARN_TAGS) | BARN_TRANSIT | phase))
		return NULL;
	s->found->at = at;
	return barn_sheaf(cell);
}

struct sheaf *cells_search(const struct barn_search *s, const struct cells *cells)
{
	unsigned int n = cells->n, top = os_load_relaxed(cells->top);

	for (unsigned int k = 0; k < n; k++) {
		unsigned int i = s->full ? top + k : top + n - 1 - k;
		uintptr_t cell;
		struct sheaf *sheaf;

		i = i < n ? i : i - n;
		cell = os_load_relaxed(&cells->at[i]);
		if (!cell || (cell & BARN_TRANSIT) || s->full != (bool)(cell & BARN_FULL))
			continue;
		sheaf = begin(s, &cells->at[i], cell);
		if (!sheaf)
			continue;
		s->found->may_be_full = i < cells->limit;
		os_store_relaxed(cells->top, s->full ? i + 1 : i);
		return sheaf;
	}
	return NULL;
}

bool cells_put(const struct cells *cells, struct sheaf *sheaf, bool full)
{
	uintptr_t value = (uintptr_t)sheaf | (full ? BARN_FULL : 0);

	for (unsigned int i = 0; i < cells->limit && i < cells->n; i++) {
		uintptr_t *at = &cells->at[full ? i : cells->n - 1 - i], none = 0;

		if (!os_load_relaxed(at) && os_cmpxchg(at, &none, value))
			return true;
	}
	return false;
}

bool cells_have_room(const struct cells *cells)
{
	for (unsigned int i = 0; i < cells->limit && i < cells->n; i++)
		if (!os_load_relaxed(&cells->at[i]))
			return true;
	return false;
}
