/* SPDX-License-Identifier: MIT */
/*
 * Arrays of cells, and the search through those of other CPUs. See barn.h.
 *
 * Callers: src/percpu/barn/barn.c, src/percpu/barn/steal.c, src/percpu/remote.c.
 */
#ifndef SHEAF_PERCPU_CELLS_H
#define SHEAF_PERCPU_CELLS_H

#include "os/atomic.h"
#include "os/machine.h"
#include "percpu/barn/barn.h"

/*
 * An array of cells, of which the first `limit` may be full. `top` is where empty ones end and full
 * ones begin, if no other thread interferes: each exchange moves it by one, like a stack pointer,
 * so that the first cell a search looks at is usually the right one. Only a hint.
 */
struct cells {
	uintptr_t *at;
	unsigned int n, limit;
	uint16_t *top;
	bool of_other; /* another CPU's shard: a sheaf is taken when it is seen a second time */
};

/* The kind of sheaf a search looks for, on whose behalf, and its cell when it is found; or room for
 * a full sheaf. */
struct barn_search {
	struct sheaf_cache *cache;
	struct barn *barn; /* of this CPU's node */
	unsigned int cpu, node;
	bool full;
	uint16_t *next; /* where the last search of this kind ended; a hint */
	struct barn_cell *found;
	struct sheaf *put, **displaced; /* see barn_put_full() */
};

/* Search these cells. Returns the sheaf that was found, or put, full or empty; or NULL. */
struct sheaf *cells_search(const struct barn_search *s, const struct cells *cells);
/* The full (empty) sheaves of this shard were seen by another CPU. */
void cells_mark_seen(uintptr_t *at, bool full);
/*
 * Put an empty sheaf into the last free cell; at most `limit` of them may be taken. below: into the
 * first one, which may hold a full sheaf later: a CPU that frees then exchanges the two there.
 */
bool cells_put_empty(const struct cells *cells, struct sheaf *sheaf, bool below);
/* True if there is a cell for a full one in this shard. */
bool cells_have_room(const struct cells *cells);

/* A cell in transit has this tag, and that of the phase in which it was taken. */
static inline uintptr_t barn_transit(const struct sheaf_cache *cache)
{
	return BARN_TRANSIT | (os_load_relaxed(&cache->phase) & 1 ? BARN_PHASE : 0);
}

/* From now on others look into this CPU's shard (BARN-N1). Returns false if there is no memory. */
bool barn_use(struct sheaf_cache *cache, unsigned int cpu);

/* Search the shard of a CPU; one part of each of the node's blocks. In barn.c. */
struct sheaf *barn_search_shard(const struct barn_search *s, unsigned int cpu);
struct sheaf *barn_search_part(const struct barn_search *s, unsigned int part);

/*
 * Search the shard, or the part of the blocks, where this CPU last found a sheaf; with `near`, not
 * if it is the shard of a CPU behind another cache. If there is none now, the next call looks one
 * place further.
 */
struct sheaf *steal_again(const struct barn_search *s, bool near);
/* Put a full sheaf into this CPU's part of the blocks, where it then looks first. */
struct sheaf *steal_part(const struct barn_search *s);
/* Search the shards of the CPUs that share its hardware cache. */
struct sheaf *steal_near(const struct barn_search *s);
/*
 * Search those of the node's other CPUs. *all: this search came back to the first place, so that
 * this CPU's latest ones together have looked at every shard in use.
 */
struct sheaf *steal_far(const struct barn_search *s, bool *all);

#endif
