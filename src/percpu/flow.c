/* SPDX-License-Identifier: MIT */
/*
 * Flow: what a cache's use tells about it. Seen where main and spare are swapped, and where full sheaves
 * come from a barn.
 *
 * Volume. An exchange with a barn costs the same whatever the sheaf holds, and between CPUs a few cache
 * lines' way from one to the other; a swap cuts a bulk transfer in two. A cache that has made many of
 * both gets larger sheaves, within a budget of bytes; for a while after that, spare sheaves that are
 * still small are renewed at swaps. A capacity that the user chose is left alone; shrinking the cache
 * begins anew.
 *
 * Direction. A sheaf tells which CPU's frees filled it. Where one CPU allocates what another one
 * freed, allocations ask ahead for the lines of objects, which the other CPU still has
 * (src/cache/fast.c). A cache whose CPUs allocate what they freed would only pay for that. `flow`
 * counts sheaves from other CPUs, less twice those from the own one, and decides with hysteresis.
 *
 * All of it are hints, changed without order, but for the capacity: a compare-exchange changes it
 * together with the word that the user chose it. What changed is told by `flow_changed`: a slow path of
 * the layer above sees it when it has nothing in hand.
 */
#include "percpu/flow.h"

#include "os/atomic.h"
#include "os/machine.h"
#include "percpu/barn.h"
#include "percpu/limits.h"
#include "percpu/sheaf.h"

/*
 * Larger sheaves are memory that only a busy cache is worth. So many exchanges of 60 objects are 61,000
 * pairs, a third of a millisecond: half or double only moves that moment.
 */
#define MANY_EXCHANGES 1024

/*
 * Swaps after that, at which spares are renewed: one for each CPU of 64. Half leaves those beyond 32 their
 * small spares until these are met empty; double keeps a test in as many more swaps.
 */
#define RENEWALS 64

/*
 * Sheaves from other CPUs, less twice the own ones, until allocations ask ahead; back at 0. Asking ahead is
 * worth 139 to 156 M pairs a second one way, and costs 0.6 ns a pair where no object travels. So a
 * cache must show it for long, and a batch of its own undoes it. Half or double: sooner or later by 64 sheaves.
 */
#define FLOW_HIGH 128

/*
 * How large. From CPU to CPU, 64 bytes: 94 M pairs a second with 60 objects, 139 with 252, 142 with 508, 147
 * with 1020. So 508, a sheaf of 4 KiB, and for larger objects as many as are 64 KiB: half costs those more
 * exchanges, double is memory of each CPU for little. All CPUs' together are bounded, too: from 128 CPUs
 * on each gets less (from 64, with half).
 */
#define LARGE_CAPACITY 508
#define LARGE_BYTES    ((size_t)64 << 10) /* of the objects in a sheaf */
#define LARGE_ALL      ((size_t)8 << 20)  /* of those in a sheaf of every CPU in use */

/* Unless the user chose another one, also meanwhile. */
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
	/* With its header a whole number of lines. */
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
	os_store_relaxed(&cache->exchanges, exchanges + 1);
	if (exchanges + 1 == MANY_EXCHANGES)
		grow_capacity(cache);
	return exchanges >= MANY_EXCHANGES;
}

static void see_direction(struct sheaf_cache *cache, bool own)
{
	uint32_t before = os_load_relaxed(&cache->flow), flow = before;

	if (own)
		flow -= flow < 2 ? flow : 2;
	else
		flow += flow < FLOW_HIGH;
	if (flow != before)
		os_store_relaxed(&cache->flow, flow);
	if ((flow == FLOW_HIGH || flow == 0) && os_load_relaxed(&cache->one_way) != (flow != 0) &&
	    os_exchange(&cache->one_way, flow != 0) != (flow != 0))
		os_store_release(&cache->flow_changed, 1);
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
