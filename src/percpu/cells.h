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
 * An array of cells, of which the first `limit` may be full. `top` is where empty ones end and full
 * ones begin, if no other thread interferes: each exchange moves it by one, like a stack pointer,
 * so that the first cell a search looks at is usually the right one. Only a hint.
 */
struct cells {
	uintptr_t *at;
	unsigned int n, limit;
	uint32_t *top;
};

/* The kind of sheaf a search looks for, on whose behalf, and its cell when it is found; or room for
 * a full sheaf. */
struct barn_search {
	struct sheaf_cache *cache;
	struct barn *barn; /* of this CPU's node */
	unsigned int cpu, node;
	bool full;
	struct barn_cell *found;
	struct sheaf *put, **displaced; /* see barn_put_full() */
};

/* Search these cells. Returns the sheaf that was found, or put; or NULL. */
struct sheaf *cells_search(const struct barn_search *s, const struct cells *cells);
/* Put an empty sheaf into the last free cell; at most `limit` of them may be taken. */
bool cells_put_empty(const struct cells *cells, struct sheaf *sheaf);
/* True if there is a cell for a full one. */
bool cells_have_room(const struct cells *cells);

/* Search the shard of a CPU; one part of each of the node's blocks. In barn.c. */
struct sheaf *barn_search_shard(const struct barn_search *s, unsigned int cpu);
struct sheaf *barn_search_part(const struct barn_search *s, unsigned int part);

/*
 * Search the shard, or the part of the blocks, where this CPU last found a sheaf. If there is none
 * now, the next call looks one place further.
 */
struct sheaf *steal_again(const struct barn_search *s);
/*
 * Search the shards of this node's CPUs. *all: this search came back to the first place, so that
 * this CPU's latest ones together have looked at every shard in use.
 */
struct sheaf *steal(const struct barn_search *s, bool *all);

#endif
