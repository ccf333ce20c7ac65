/* SPDX-License-Identifier: MIT */
/*
 * Flow: how a cache is used, observed where main and spare are swapped, where full sheaves are
 * taken from a barn, and where sheaves are refilled from slabs or flushed into them.
 *
 * Volume. An exchange with a barn costs the same however many objects the sheaf holds, and a few
 * cache lines move if the sheaf comes from another CPU; a swap cuts a bulk transfer in two; a
 * refill or a flush takes locks, and fewer slabs go from full to empty in one flush. A cache that
 * has made many of these gets larger sheaves, within a budget of bytes; for a while after that,
 * small spare sheaves are renewed at swaps. A capacity that the user chose does not change, but
 * retired objects are then collected in larger sheaves, which allocations use up when a grace
 * period has passed. Shrinking the cache starts over.
 *
 * Room. If a CPU's batches do not fit into its shard, it alternates between too few sheaves there
 * and too many, and exchanges them with the rest of the node or with slabs, whose lines and locks
 * all CPUs share. Each change from one to the other is counted, on the CPU. After some of them the
 * CPU's part of the barn doubles, and with it the sheaves; with more changes again, up to a bound.
 * A heap that only grows always has too few; one that is only freed always has too many, and so has
 * a CPU that frees what another one allocates. There, nothing is counted or written. Limits that
 * the user set stay. Shrinking the cache, or a time without use, starts over.
 *
 * Direction. A sheaf records which CPU's frees filled it. If one CPU allocates objects that another
 * CPU freed, allocations prefetch the lines of objects, which the other CPU's cache still holds
 * (src/cache/table.c). For a cache whose CPUs allocate the objects that they freed, this would only
 * be a cost. `flow` counts sheaves from other CPUs, minus twice those from the same CPU, and
 * decides with hysteresis. Each CPU counts by itself and adds a part at a time, because all slow
 * paths read the cache's words.
 *
 * All of these are hints, changed without ordering, except the capacity: a compare-exchange changes
 * it together with the word that says whether the user chose it. `flow_changed` says what changed:
 * a slow path of the layer above reads it when it has nothing in hand.
 */
#include "os/atomic.h"
#include "os/machine.h"
#include "percpu/barn/barn.h"
#include "percpu/barn/budget.h"
#include "percpu/sheaf.h"

/* Larger sheaves are worth their memory only in a busy cache. 1024 exchanges of 60 objects are
 * 61,000 pairs, a third of a millisecond: half or double only moves that moment. */
#define MANY_EXCHANGES 1024

/*
 * Swaps after that, at which spares are renewed: one for each of 64 CPUs. With half, CPUs beyond 32
 * keep their small spares until they are found empty; double keeps one test in twice as many swaps.
 */
#define RENEWALS 64

/*
 * Sheaves from other CPUs, minus twice those from the same CPU, until allocations prefetch; they
 * stop at 0. Prefetching raises 139 to 156 M pairs per second from CPU to CPU, and costs 0.6 ns per
 * pair where objects stay on their CPU. So a cache must show this use for long, and one batch of
 * its own objects undoes it. Half or double: 64 sheaves sooner or later.
 */
#define FLOW_HIGH 128
/*
 * What a CPU counts by itself before it adds that. With half, CPUs whose sheaves come from
 * everywhere write the cache's words twice as often; with double, up to 31 sheaves of each CPU are
 * not counted yet.
 */
#define FLOW_PART 16

/*
 * The larger capacity. From CPU to CPU, objects of 64 bytes: 94 M pairs per second with 60 objects,
 * 139 with 252, 142 with 508, 147 with 1020. So the capacity is 508, a sheaf of 4 KiB; for larger
 * objects, 64 KiB of objects until budgets grow. Half costs those more exchanges; double is memory
 * on each CPU for little gain. One such sheaf for each CPU that uses the cache is at most an eighth
 * of the process's budget: with a fourth, CPUs that pass bursts of objects to each other use up the
 * budget by sheaves in their slots.
 */
#define LARGE_CAPACITY	  508
#define LARGE_PART	  2 /* of a CPU's part of the barn: so that its shard has room for two */
#define LARGE_BUDGET_PART 8

/*
 * Turns of one CPU, from too many sheaves to too few and back, before budgets double: four rounds.
 * Half: where the next CPU frees what a process allocated (`fork`, 32 CPUs), they double twice as
 * often for the same rate; double: large batches pass through slabs for twice as long. A program
 * that builds a heap and frees it makes two turns.
 */
#define TURNS 8
/*
 * Budgets double so often: to 4 MiB for each CPU, and 2 MiB for a sheaf. Half as much, and batches
 * of 1000 objects of 4 KiB pass through slabs; double has no use that was measured.
 */
#define LEVELS 5

/* Unless the user chose another one, even during this call. */
static void change_capacity(struct sheaf_cache *cache, uint32_t capacity)
{
	uint64_t now = os_load_relaxed(&cache->capacities);
	uint32_t first;

	do {
		first = sheaf_first_capacity(now);
		if (!first)
			return;
	} while (!os_cmpxchg(&cache->capacities, &now, sheaf_capacities(first, capacity)));
	barn_set_limits(cache);
	os_store_release(&cache->flow_changed, 1);
}

static void grow_capacity(struct sheaf_cache *cache)
{
	uint32_t first = sheaf_first_capacity(os_load_relaxed(&cache->capacities));
	size_t bytes = barn_cpu_bytes(cache) / LARGE_PART,
	       all = (size_t)os_load_relaxed(&sheaf_budget.limit) / LARGE_BUDGET_PART, larger;

	larger = (bytes < all / barn_cpus(cache) ? bytes : all / barn_cpus(cache)) /
		 cache->slab.size;
	/* With its header, a whole number of cache lines. */
	larger = larger < LARGE_CAPACITY ? (larger & ~(size_t)7) - 4 : LARGE_CAPACITY;
	if (larger > LARGE_CAPACITY || larger <= first)
		return;
	if (first)
		change_capacity(cache, (uint32_t)larger);
	else
		os_store_relaxed(&cache->retired, (uint16_t)larger);
}

/*
 * Unless the process has half of its budget in sheaves: the rest is for caches with the first one.
 * A shard whose cells are all in use needs larger sheaves, and has no use for more of them; one
 * that is too small for a sheaf is that of a cache of very large blocks.
 */
static bool may_grow(struct sheaf_cache *cache)
{
	uint64_t capacities = os_load_relaxed(&cache->capacities);
	uint32_t shard = os_load_relaxed(&cache->shard_full);

	if (sheaf_budget_is_short() || os_load_relaxed(&cache->barn_objects) ||
	    os_load_relaxed(&cache->barn_kib))
		return false;
	return shard && (shard < barn_shard_cells() || (sheaf_first_capacity(capacities) &&
							(uint32_t)capacities < LARGE_CAPACITY));
}

static void grow_budgets(struct sheaf_cache *cache, uint32_t level)
{
	if (!may_grow(cache) || !os_cmpxchg(&cache->level, &level, level + 1))
		return;
	barn_set_limits(cache);
	os_store_relaxed(&cache->exchanges, MANY_EXCHANGES);
	grow_capacity(cache);
}

void barn_note_imbalance(struct sheaf_cache *cache, unsigned int cpu, bool too_many)
{
	uint16_t *here = &slot_of_row(cache->at.handle, cpu)->turns;
	uint32_t level = os_load_relaxed(&cache->level), turns = os_load_relaxed(here);

	/* Those before the budgets changed do not count. */
	if (turns / TURNS != level)
		turns = level * TURNS;
	if (level == LEVELS || turns % 2 == too_many)
		return;
	os_store_relaxed(here, (uint16_t)++turns);
	if (turns % TURNS == 0)
		grow_budgets(cache, level);
}

bool sheaf_see_volume(struct sheaf_cache *cache)
{
	uint32_t exchanges = os_load_relaxed(&cache->exchanges);

	if (exchanges >= MANY_EXCHANGES + RENEWALS)
		return false;
	/* They grow when there is memory for that again. */
	if (exchanges + 1 == MANY_EXCHANGES && sheaf_budget_is_over())
		return false;
	os_store_relaxed(&cache->exchanges, exchanges + 1);
	if (exchanges + 1 == MANY_EXCHANGES)
		grow_capacity(cache);
	return exchanges >= MANY_EXCHANGES;
}

static void add_flow(struct sheaf_cache *cache, int part)
{
	int before = (int)os_load_relaxed(&cache->flow), flow = before + part;

	flow = flow < 0 ? 0 : flow > FLOW_HIGH ? FLOW_HIGH : flow;
	if (flow != before)
		os_store_relaxed(&cache->flow, (uint32_t)flow);
	if ((flow == FLOW_HIGH || flow == 0) && os_load_relaxed(&cache->one_way) != (flow != 0) &&
	    os_exchange(&cache->one_way, flow != 0) != (flow != 0))
		os_store_release(&cache->flow_changed, 1);
}

static void see_direction(struct sheaf_cache *cache, bool own)
{
	int16_t *here = &slot_of_row(cache->at.handle, os_row())->flow;
	int part = os_load_relaxed(here) + (own ? -2 : 1);
	bool done = part >= FLOW_PART || part <= -FLOW_PART;

	os_store_relaxed(here, (int16_t)(done ? 0 : part));
	if (done)
		add_flow(cache, part);
}

void sheaf_flow(struct sheaf_cache *cache, const struct sheaf *full, unsigned int cpu)
{
	sheaf_see_volume(cache);
	see_direction(cache, !full->filled_by || full->filled_by == cpu + 1);
}

void sheaf_forget_flow(struct sheaf_cache *cache)
{
	uint32_t first = sheaf_first_capacity(os_load_relaxed(&cache->capacities));

	os_store_relaxed(&cache->exchanges, 0);
	os_store_relaxed(&cache->retired, 0);
	os_store_relaxed(&cache->level, 0);
	if (first)
		change_capacity(cache, first);
	else if (sheaf_capacity(cache))
		barn_set_limits(cache);
}
