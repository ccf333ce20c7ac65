/* SPDX-License-Identifier: MIT */
/*
 * Sheaves: the per-CPU part of a cache, and the barns behind it.
 *
 *   thread -> slot (main, spare) -> shard of its CPU -> node's blocks -> other CPUs' shards ->
 * slabs
 *                                   `------------- the barn ------------------------'
 *
 * A sheaf travels as a whole. A slow path takes one out, owns it, and hands it over: into a slot, a
 * barn cell, or its objects to their slabs (docs/design.md, R2).
 *
 * Barn cells hold one sheaf each, tagged full or empty. Whoever wants a full sheaf tags its cell
 * "in transit" by one compare-exchange, installs the sheaf in a slot, and then stores the empty
 * sheaf it got for it into the same cell; the other way round for a free. No links, so no ABA;
 * nobody waits for anybody: others pass a cell in transit by (R3). Full sheaves fill an array from
 * below, empty ones from above.
 *
 * Invariants
 *  H1. A sheaf is in one slot (as main or spare), in one cell, or in one thread's hands.
 *  H2. Objects in sheaves are of this cache, and free; their slabs count them as in use.
 *  H3. Whoever has a sheaf with free objects in hand shows it, so that a drain can wait for it: by a
 *      cell in transit, or by the in-hand count where there is no cell. Both carry the phase.
 *      A refill is still an allocation: its objects are the caller's until they are installed.
 *      Nobody waits for a drain, takes its lock or runs a user's callback meanwhile.
 *  H4. A sheaf's capacity never changes. One whose capacity is no longer the cache's is used up, and
 *      freed when it is met empty; or its objects move to one that fits (percpu.c).
 *  H5. Full sheaves enter a node's blocks up to barn_full, and a shard up to shard_full. Empty ones
 *      are bounded by the cells.
 *
 * Locks: OS_RANK_DRAIN (one drain at a time). Slow paths take no lock but the slab layer's.
 * Callers: src/cache/.
 */
#ifndef SHEAF_PERCPU_SHEAF_H
#define SHEAF_PERCPU_SHEAF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/atomic.h"
#include "os/section.h"
#include "slab/slab.h"

#define SHEAF_CAPACITY_MAX 4096
#define SHEAF_HANDLE	   ((size_t)1 << SLOT_SHIFT)
#define SHEAF_COLD	   UINT32_MAX /* filled_by: its objects are in no CPU's cache any more */

struct sheaf_cache {
	struct section_slots at; /* the slots; without sheaves nobody fills them */
	struct slab_cache slab;	 /* programs know its offset: see sheaf/kmalloc.h */
	uint32_t phase;		 /* of the in-hand counts */
	uint32_t barn_full;	 /* full sheaves in a node's blocks, beside the shards' */
	uint32_t shard_full;	 /* cells of one shard that may hold full ones */
	uint64_t capacities; /* changes as one: see sheaf_capacity() and sheaf_first_capacity() */
	size_t barn_objects, barn_bytes; /* limits that the user set, or 0: see barn.h */
	struct sheaf *bootstrap;	 /* for threads without a row: see os/section.h */
	struct barn **barns;		 /* os.nr_nodes of them, NULL until used */
	uint32_t flow;			 /* sheaves that other CPUs filled, beyond own ones */
	uint32_t flow_changed; /* one_way, or the capacity by volume: the layer above clears it */
	uint32_t one_way;      /* flow is high */
	uint32_t exchanges;    /* swaps, and full sheaves from barns, until they are many */
	uint32_t quiet;	       /* nobody uses the cache: see drain.c */
	struct sheaf_source *rcu; /* NULL until an object is retired */
};

/* Sheaves of retired objects: src/rcu/ keeps them, and allocations come here for those that have passed. */
struct sheaf_source_ops {
	/* Ask the provider, if it can be asked, whether something passed: with nothing in hand. */
	void (*poll)(struct sheaf_source *source);
	/* A sheaf whose grace period has passed, for an allocation on this CPU; or NULL. Its taker shows it. */
	struct sheaf *(*take)(struct sheaf_source *source);
	/* For a drain: all of those, linked by `next`. */
	struct sheaf *(*take_all)(struct sheaf_source *source);
	/* Call visit for every sheaf, of a quiet cache; waits: its grace period has not passed. */
	void (*for_each)(struct sheaf_source *source,
			 void (*visit)(void *data, struct sheaf *sheaf, bool waits), void *data);
};

struct sheaf_source {
	const struct sheaf_source_ops *ops;
};

/* Call visit for every sheaf of retired objects that is in no slot. */
static inline void
sheaf_for_each_retired(struct sheaf_cache *cache,
		       void (*visit)(void *data, struct sheaf *sheaf, bool waits), void *data)
{
	if (cache->rcu)
		cache->rcu->ops->for_each(cache->rcu, visit, data);
}

/* Of new sheaves; 0: this cache has none. */
static inline uint32_t sheaf_capacity(const struct sheaf_cache *cache)
{
	return (uint32_t)os_load_relaxed(&cache->capacities);
}

/* What a cache with these began with; 0: the user set the capacity, and it is left alone. */
static inline uint32_t sheaf_first_capacity(uint64_t capacities)
{
	return (uint32_t)(capacities >> 32);
}

static inline uint64_t sheaf_capacities(uint32_t first, uint32_t now)
{
	return (uint64_t)first << 32 | now;
}

static inline void sheaf_set_size(struct sheaf *sheaf, uint32_t size)
{
	/* view_slot() reads headers, whoever has the sheaf. */
	os_store_relaxed(&sheaf->base, size);
	os_store_relaxed(&sheaf->word, size);
}

/*
 * Whole sheaves in hand. Who has one with free objects shows it (H3): by a barn cell in transit,
 * or by the in-hand count. Callers: src/percpu/, src/rcu/.
 */

struct barn_cell;

/* An empty sheaf of the cache's capacity, or NULL: from the pool; from the barn, else the pool; from
 * the barn, its cell in transit. */
struct sheaf *sheaf_new(struct sheaf_cache *cache);
struct sheaf *sheaf_take_empty(struct sheaf_cache *cache);
struct sheaf *sheaf_begin_empty(struct sheaf_cache *cache, struct barn_cell *cell);

/*
 * This CPU's spare sheaf, or NULL: into the hand of a caller who has entered it; or only if it is empty
 * and fits, when no barn need be asked for one, nor be given it.
 */
struct sheaf *sheaf_take_spare(struct sheaf_cache *cache);
struct sheaf *sheaf_take_empty_spare(struct sheaf_cache *cache);

/* One of this capacity from the pool, whatever the cache's is. */
struct sheaf *sheaf_make(struct sheaf_cache *cache, uint32_t capacity);

/* Is its capacity still the cache's? */
bool sheaf_fits(struct sheaf_cache *cache, struct sheaf *sheaf);

/*
 * Before a sheaf filled by frees goes on to others: look whose its newest objects are. What was freed to
 * the wrong cache is reported and left out, so the sheaf may have fewer objects afterwards. A sheaf whose
 * objects go to their slabs need not be looked at: there each object is.
 */
void sheaf_check_newest(struct sheaf_cache *cache, struct sheaf *sheaf, const char *call);

/* Into the barn, counted. False if there is no room. */
bool sheaf_put_full(struct sheaf_cache *cache, struct sheaf *sheaf);
bool sheaf_put_empty(struct sheaf_cache *cache, struct sheaf *sheaf);

/* Hand a sheaf over, whatever it is (NULL, too): to the barn, or its objects to the slabs. */
void sheaf_hand_over(struct sheaf_cache *cache, struct sheaf *sheaf, const char *call);

/* A harvested sheaf in hand: its objects to their slabs; the sheaf itself to the pool. */
void sheaf_flush(struct sheaf_cache *cache, struct sheaf *sheaf, const char *call);
void sheaf_release(struct sheaf_cache *cache, struct sheaf *sheaf);

#endif
