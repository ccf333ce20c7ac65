/* SPDX-License-Identifier: MIT */
/*
 * Sheaves: the per-CPU part of a cache, and its barns.
 *
 *   thread -> slot: main, spare -> shard of its CPU -> node's blocks -> other shards -> slabs
 *                                  `----------------- the barn -----------------'
 *
 * A sheaf moves as a whole. A slow path takes one out, owns it, and hands it over: into a slot,
 * into a barn cell, or its objects to their slabs (docs/design.md, R2).
 *
 * Barn cells hold one sheaf each, tagged full or empty. A thread that wants a full sheaf tags its
 * cell "in transit" with one compare-exchange, installs the sheaf in a slot, and then stores the
 * empty sheaf that it replaced into the same cell. A free does the reverse. There are no links, so
 * no ABA, and no thread waits for another: threads skip cells in transit (R3). Full sheaves fill an
 * array from below, empty ones from above; but where objects flow one way (flow.c), empty ones fill
 * a shard from below, so that the CPU that frees exchanges the two in one cell. A sheaf that is
 * neither has a cell of its own in each shard, and is merged with the one that is there (barn.h).
 *
 * Invariants
 *  SHEAF-H1. A sheaf is in one slot (as main, spare, or for another node), in one cell, or in one
 *      thread's hands.
 *  SHEAF-H2. Objects in sheaves belong to this cache and are free; their slabs count them as in
 *      use.
 *  SHEAF-H3. A thread that has a sheaf with free objects in hand shows it, so that a drain can wait
 *      for it: by a cell in transit, or by the in-hand count if there is no cell. Both carry the
 *      phase. A refill is still an allocation: the caller owns its objects until they are
 *      installed. While it has a sheaf in hand, a thread never waits for a drain, takes the drain
 *      lock or runs a user's callback.
 *  SHEAF-H4. A sheaf's capacity never changes. A sheaf whose capacity is no longer the cache's is
 *      used up, and freed when a slow path finds it empty; or its objects move to a sheaf with the
 *      right capacity (percpu.c). A larger one of retired objects (flow.c) is used up, and then
 *      filled with retired objects again.
 *  SHEAF-H5. Full sheaves enter a node's blocks up to barn_full, and a shard up to shard_full.
 *      Empty ones are bounded by the cells, partial ones by one for each shard.
 *
 * Locks: OS_RANK_DRAIN (one drain at a time). Slow paths take only the slab layer's locks.
 * Callers: src/cache/.
 */
#ifndef SHEAF_PERCPU_SHEAF_H
#define SHEAF_PERCPU_SHEAF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "debug/sample.h"
#include "os/assert.h"
#include "os/atomic.h"
#include "os/machine.h"
#include "os/section.h"
#include "slab/slab.h"

#define SHEAF_CAPACITY_MAX 4096
#define SHEAF_HANDLE	   ((size_t)1 << SLOT_SHIFT)
#define SHEAF_COLD	   UINT32_MAX /* in filled_by: no CPU's cache still holds its objects */

struct sheaf_cache {
	struct section_slots at; /* the slots; caches without sheaves never fill them */
	struct slab_cache slab;
	uint16_t phase; /* of the in-hand counts; the other one of those of retired sheaves */
	uint16_t rcu_phase;
	uint32_t barn_full;  /* limit of full sheaves in a node's blocks, without the shards */
	uint64_t capacities; /* changed together: see sheaf_capacity() and sheaf_first_capacity() */
	uint32_t barn_objects, barn_kib; /* limits that the user set, or 0: see barn.h */
	struct barn **barns;		 /* os.nr_nodes of them, NULL until used */
	uint32_t flow;			 /* sheaves that other CPUs filled, beyond own ones */
	uint32_t flow_changed; /* one_way, capacity or limits: the layer above clears it */
	uint32_t one_way;      /* flow is high */
	uint32_t exchanges;    /* with barns, swaps, refills and flushes, up to MANY_EXCHANGES */
	uint32_t level;	       /* budgets were doubled so often: see flow.c */
	uint16_t quiet;	       /* no thread uses the cache: see drain.c */
	uint16_t retired;      /* a larger capacity of sheaves of retired objects, or 0: flow.c */
	uint32_t shard_full;   /* number of cells of one shard that may hold full ones */
	uint32_t sampled;      /* objects are: the fast path counts down to the next sample */
	struct sheaf_rcu *rcu; /* NULL until an object is retired */
};

/*
 * Sheaves of retired objects. src/rcu/ stores them, and has these functions: rcu_queue_sheaf() in
 * src/rcu/rcu_free.c, the others in src/rcu/after_grace.c.
 */
struct sheaf_rcu;

/* Let a sheaf of this row wait: for a thread that is counted in rcu_in_hand. Returns true if too
 * much is retired. */
bool rcu_queue_sheaf(struct sheaf_rcu *rcu, struct sheaf *sheaf, unsigned int row);
/* Ask the provider, if it supports that, whether a grace period passed: with nothing in hand. */
void rcu_poll(struct sheaf_rcu *rcu);
/* Take a sheaf with objects of this node whose grace period has passed, for an allocation; or
 * return NULL. The caller shows it. all: look everywhere, and wait for locks. */
struct sheaf *rcu_take(struct sheaf_rcu *rcu, unsigned int node, bool all);
/* For a drain: all of those whose grace period had passed at the call, linked by `next`. */
struct sheaf *rcu_take_all(struct sheaf_rcu *rcu);
/* Call visit for every sheaf of retired objects that is not in a slot, of a quiet cache. waits: it
 * is in a queue, and its grace period has not passed yet. */
typedef void sheaf_visit(void *data, struct sheaf *sheaf, bool waits);
void sheaf_for_each_retired(struct sheaf_cache *cache, sheaf_visit *visit, void *data);

/* The capacity of new sheaves; 0: this cache has none. */
static inline uint32_t sheaf_capacity(const struct sheaf_cache *cache)
{
	return (uint32_t)os_load_relaxed(&cache->capacities);
}

/* The first capacity of a cache with these words; 0: the user set it, and it must not change. */
static inline uint32_t sheaf_first_capacity(uint64_t capacities)
{
	return (uint32_t)(capacities >> 32);
}

/* The capacity of new sheaves for retired objects. */
static inline uint32_t sheaf_retired_capacity(const struct sheaf_cache *cache)
{
	uint32_t capacity = sheaf_capacity(cache), larger = os_load_relaxed(&cache->retired);

	return larger > capacity ? larger : capacity;
}

static inline uint64_t sheaf_capacities(uint32_t first, uint32_t now)
{
	return (uint64_t)first << 32 | now;
}

static inline void sheaf_set_size(struct sheaf *sheaf, uint32_t size)
{
	/* view_slot() reads headers, whoever owns the sheaf. */
	os_store_relaxed(&sheaf->base, size);
	os_store_relaxed(&sheaf->word, size);
}

/* Before a sheaf goes into a slot: draw which of its pops is sampled. */
static inline void sheaf_arm(const struct sheaf_cache *cache, struct sheaf *sheaf)
{
	/* PREFILL-F3 */
	os_assert(sheaf->capacity && !(sheaf->capacity & SHEAF_OVERSIZE));
	if (os_likely(!os_load_relaxed(&cache->sampled)))
		return;
	os_store_relaxed(&sheaf->left, (int32_t)sample_pops(cache->slab.object_size) - 1);
}

/* Whole sheaves in hand. A thread that has one with free objects shows it (SHEAF-H3): by a barn
 * cell in transit, or by the in-hand count. Callers: src/percpu/, src/rcu/. */

struct barn_cell;

/* Get an empty sheaf of the cache's capacity, or NULL: from the pool; from this node's barn, else
 * the pool; from the barn, with its cell in transit. place: as for barn_begin_empty(). */
struct sheaf *sheaf_new(struct sheaf_cache *cache);
struct sheaf *sheaf_take_empty(struct sheaf_cache *cache, unsigned int node, uint16_t *place);
struct sheaf *sheaf_begin_empty(struct sheaf_cache *cache, unsigned int node, uint16_t *place,
				struct barn_cell *cell);

/*
 * Take this CPU's spare sheaf, or return NULL: for a caller that has entered the in-hand count; or
 * only if the spare is empty and has this capacity, so that the barn need not provide an empty
 * sheaf or take one.
 */
struct sheaf *sheaf_take_spare(struct sheaf_cache *cache);
struct sheaf *sheaf_take_empty_spare(struct sheaf_cache *cache, uint32_t capacity);

/* Allocate a sheaf of this capacity from the pool, whatever the cache's capacity is. With
 * SHEAF_OVERSIZE it is never the cache's. */
struct sheaf *sheaf_make(struct sheaf_cache *cache, uint32_t capacity);

/* The memory of a sheaf itself. */
static inline size_t sheaf_bytes(uint32_t capacity)
{
	return SHEAF_HEADER + capacity * sizeof(void *);
}

/* The number of objects for which it has room. */
static inline uint32_t sheaf_room(const struct sheaf *sheaf)
{
	return sheaf->capacity & ~SHEAF_OVERSIZE;
}

/* True if its capacity is still the cache's. */
static inline bool sheaf_fits(const struct sheaf_cache *cache, const struct sheaf *sheaf)
{
	return sheaf->capacity == sheaf_capacity(cache);
}

/* Move the newest objects of one sheaf in hand into another one, but no more than `most`, for which
 * there is room. Returns their number. */
unsigned int sheaf_move(struct sheaf *to, struct sheaf *from, unsigned int most);

/*
 * Before a sheaf filled by frees is handed on, check the owner of its newest objects. Objects that
 * were freed to the wrong cache are reported and left out, so the sheaf may have fewer objects
 * afterwards. A sheaf whose objects return to their slabs need not be checked: the slabs check each
 * object.
 *
 * The call that finds a wrong pointer in a sheaf is not the one that put it there: reports say
 * "an earlier free" in place of a call.
 */
#define EARLIER_FREE   "an earlier free"
#define EARLIER_RETIRE "an earlier kfree_rcu"
void sheaf_check_newest(struct sheaf_cache *cache, struct sheaf *sheaf, const char *earlier);

/* Put it into the barn, of this node, and count it. Returns false if there is no room. */
bool sheaf_put_full(struct sheaf_cache *cache, unsigned int node, struct sheaf *sheaf);
bool sheaf_put_empty(struct sheaf_cache *cache, struct sheaf *sheaf);

/* Hand over any sheaf (or NULL): to the barn, one that is partly filled together with the CPU's
 * partial sheaf; or its objects to the slabs. */
void sheaf_hand_over(struct sheaf_cache *cache, struct sheaf *sheaf);

/* Empty a harvested sheaf in hand: its objects return to their slabs, the sheaf to the pool. */
void sheaf_flush(struct sheaf_cache *cache, struct sheaf *sheaf);
void sheaf_release(struct sheaf_cache *cache, struct sheaf *sheaf);
void sheaf_flush_and_release(struct sheaf_cache *cache, struct sheaf *sheaf);

/*
 * --- harvest.c ---------------------------------------------------------------------------------
 */

/* Pushes and pops of a sheaf since it arrived in its slot with `base` objects. */
struct sheaf_traffic {
	uint64_t pops, pushes;
};
struct sheaf_traffic sheaf_traffic_of(uint64_t word, uint32_t base);

/* Add up the counts of a sheaf that left its slot. Call it once; the sheaf then counts from its
 * size. */
void sheaf_harvest_counted(struct sheaf_cache *cache, struct sheaf *sheaf) OS_COLD;
static inline void sheaf_harvest(struct sheaf_cache *cache, struct sheaf *sheaf)
{
	if (os_unlikely(os.counting))
		sheaf_harvest_counted(cache, sheaf);
}

/* Take up to n objects from main, as section_pop_bulk() does, counted. */
unsigned int sheaf_pop_bulk(struct sheaf_cache *cache, void **objects, unsigned int n);

/*
 * --- flow.c ------------------------------------------------------------------------------------
 */

/* This CPU is about to allocate from a full sheaf that was in no slot. */
void sheaf_flow(struct sheaf_cache *cache, const struct sheaf *full, unsigned int cpu);
/* Count a swap, exchange, refill or flush. Returns true for a while after sheaves became larger. */
bool sheaf_see_volume(struct sheaf_cache *cache);
/* This CPU's shard has no full sheaf for an allocation or, with too_many, no room for another. */
void barn_note_imbalance(struct sheaf_cache *cache, unsigned int cpu, bool too_many);
/* Start over with the first capacity and budget. */
void sheaf_forget_flow(struct sheaf_cache *cache);

#endif
