/* SPDX-License-Identifier: MIT */
/*
 * Arrays of cells, and the search through those of other CPUs. See barn.h.
 *
 * Callers: src/percpu/barn.c, src/percpu/steal.c.
 */
#ifndef SHEAF_PERCPU_CELLS_H
#define SHEAF_PERCPU_CELLS_H

#include "os/machine.h"
#include "percpu/barn.h"

/*
 * An array of cells, of which `limit` from below may be full. `top` is where empty ones end and
 * full ones begin, if nobody else came between: each exchange moves it by one, like a stack's
 * pointer, so that the first cell looked at is the right one. Only a hint.
 */
struct cells {
	uintptr_t *at;
	unsigned int n, limit;
	uint32_t *top;
};

/* What is looked for, by whom, and its cell when it is found; or room for a full sheaf. */
struct barn_search {
	struct sheaf_cache *cache;
	struct barn *barn; /* of this CPU's node */
	unsigned int cpu, node;
	bool full;
	struct barn_cell *found;
	struct sheaf *put, **displaced; /* see barn_put_full() */
};

/* In these cells: the sheaf that was found, or put; or NULL. */
struct sheaf *cells_search(const struct barn_search *s, const struct cells *cells);
/* An empty one into the last free cell; `limit` of them at most may be taken. */
bool cells_put_empty(const struct cells *cells, struct sheaf *sheaf);
/* Is there a cell for a full one? */
bool cells_have_room(const struct cells *cells);

/* In the shard of a CPU, in the node's blocks. */
struct sheaf *barn_search_shard(const struct barn_search *s, unsigned int cpu);
struct sheaf *barn_search_blocks(const struct barn_search *s);

/* In the shard where this CPU found one before; the next time one further, if there is none now. */
struct sheaf *steal_again(const struct barn_search *s);
/* In shards of this node's CPUs. *all: the last one of those that are used was looked at. */
struct sheaf *steal(const struct barn_search *s, bool *all);

#endif
