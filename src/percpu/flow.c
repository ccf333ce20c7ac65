/* SPDX-License-Identifier: MIT */
/*
 * Flow: how a cache is used, observed where main and spare are swapped, and where full sheaves are
 * taken from a barn.
 *
 * Volume. An exchange with a barn costs the same however many objects the sheaf holds, and a few
 * cache lines move if the sheaf comes from another CPU; a swap cuts a bulk transfer in two. A cache
 * that has made many of both gets larger sheaves, within a budget of bytes; for a while after that,
 * small spare sheaves are renewed at swaps. A capacity that the user chose does not change;
 * shrinking the cache starts over.
 *
 * Direction. A sheaf records which CPU's frees filled it. If one CPU allocates objects that another
 * CPU freed, allocations prefetch the lines of objects, which the other CPU's cache still holds
 * (src/cache/fast.c). For a cache whose CPUs allocate the objects that they freed, this would only
 * be a cost. `flow` counts sheaves from other CPUs, minus twice those from the same CPU, and
 * decides with hysteresis. Each CPU counts by itself and adds a part at a time, because all slow
 * paths read the cache's words.
 *
 * All of these are hints, changed without ordering, except the capacity: a compare-exchange changes
 * it together with the word that says whether the user chose it. `flow_changed` says what changed:
 * a slow path of the layer above reads it when it has nothing in hand.
 */
#include "percpu/flow.h"

#include "os/atomic.h"
#include "os/machine.h"
#include "percpu/barn.h"
#include "percpu/budget.h"
#include "percpu/limits.h"
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
 * objects, 64 KiB of objects. Half costs those more exchanges; double is memory on each CPU for
 * little gain. The sum over all CPUs is bounded too: from 128 CPUs on, each gets less (from 64,
 * with half).
 */
#define LARGE_CAPACITY 508
#define LARGE_BYTES    ((size_t)64 << 10) /* of the objects in a sheaf */
#define LARGE_ALL      ((size_t)8 << 20)  /* of those in one sheaf of every CPU in use */

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
	size_t bytes = LARGE_ALL / barn_cpus(cache), larger;

	larger = (bytes < LARGE_BYTES ? bytes : LARGE_BYTES) / cache->slab.size;
	/* With its header, a whole number of cache lines. */
	larger = larger < LARGE_CAPACITY ? (larger & ~(size_t)7) - 4 : LARGE_CAPACITY;
	if (!first || larger > LARGE_CAPACITY || larger <= first)
		return;
	change_capacity(cache, (uint32_t)larger);
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

void sheaf_flow_cold(struct sheaf_cache *cache)
{
	sheaf_see_volume(cache);
	see_direction(cache, false);
}

void sheaf_forget_flow(struct sheaf_cache *cache)
{
	uint32_t first = sheaf_first_capacity(os_load_relaxed(&cache->capacities));

	os_store_relaxed(&cache->exchanges, 0);
	if (first)
		change_capacity(cache, first);
}
