/* SPDX-License-Identifier: MIT */
/* Capacities and limits; see barn.h. */

#include <string.h>

#include "os/assert.h"
#include "os/atomic.h"
#include "os/machine.h"
#include "page/decay.h"
#include "percpu/barn/barn.h"

/* In barn_objects: it is a number of sheaves, whatever their capacity is. */
#define IN_SHEAVES (1u << 31)

/* The values from which the limits are computed. */
struct limits {
	size_t capacity, objects, bytes, used, cpu_bytes;
};

static size_t least(size_t one, size_t other)
{
	return one < other ? one : other;
}

/* CPUs that have used the barn: on all nodes, and on the node that has most of them. */
static size_t count_used(const struct sheaf_cache *cache, size_t *of_a_node)
{
	size_t all = 0, most = 0;

	for (uint32_t node = 0; node < os.nr_nodes; node++) {
		const struct barn *barn = os_load_acquire(&cache->barns[node]);
		size_t used = barn ? os_load_relaxed(&barn->nr_used) : 0;

		all += used;
		most = used > most ? used : most;
	}
	*of_a_node = most;
	return all;
}

unsigned int barn_cpus(const struct sheaf_cache *cache)
{
	size_t most, used = count_used(cache, &most), running = os_load_relaxed(&decay_time.cpus);

	used = used > running ? used : running;
	return used ? (unsigned int)used : 1;
}

size_t barn_cpu_bytes(const struct sheaf_cache *cache)
{
	if (os_load_relaxed(&cache->barn_objects) || os_load_relaxed(&cache->barn_kib))
		return BARN_CPU_BYTES;
	return BARN_CPU_BYTES << os_load_relaxed(&cache->level);
}

static struct limits read_limits(const struct sheaf_cache *cache)
{
	struct limits limits = {.capacity = sheaf_capacity(cache),
				.objects = os_load_relaxed(&cache->barn_objects),
				.bytes = (size_t)os_load_relaxed(&cache->barn_kib) << 10,
				.cpu_bytes = barn_cpu_bytes(cache)};

	count_used(cache, &limits.used);
	limits.used += !limits.used;
	return limits;
}

/* In a forked child, the page is shared with the parent until it is written. */
static void store_changed(uint32_t *limit, size_t now)
{
	if (os_load_relaxed(limit) != (uint32_t)now)
		os_store_relaxed(limit, (uint32_t)now);
}

/* The user's limit must be enough for all CPUs that may use the cache; otherwise each CPU adds its
 * own budget. */
static size_t cpus_of(const struct limits *from)
{
	size_t allowed = os_within_quota(os.node_allowed);

	return (from->objects || from->bytes) && from->used < allowed ? allowed : from->used;
}

static void compute_limits(struct sheaf_cache *cache, const struct limits *from)
{
	size_t sheaf_bytes = from->capacity * cache->slab.size, cpus = cpus_of(from), sheaves,
	       floor = least(BARN_FLOOR, BARN_FLOOR_BYTES / sheaf_bytes + 2), shard, rest;

	if (from->objects & IN_SHEAVES) {
		sheaves = floor = from->objects & ~(size_t)IN_SHEAVES;
		shard = sheaves / cpus;
	} else {
		sheaves = from->bytes ? from->bytes : from->cpu_bytes * cpus;
		sheaves /= sheaf_bytes;
		if (from->objects)
			sheaves = least(sheaves, from->objects / from->capacity);
		shard = least(from->cpu_bytes / sheaf_bytes, sheaves / cpus);
	}
	shard = least(shard - shard / 4, barn_shard_cells());
	rest = (sheaves < floor ? floor : sheaves) - shard * cpus;
	/* SHEAF-H5: no more than there are cells, and the blocks' part is not below 0. */
	os_assert(shard <= barn_shard_cells() && shard * cpus <= sheaves);
	store_changed(&cache->shard_full, shard);
	store_changed(&cache->barn_full, least(rest, (size_t)BARN_BLOCKS * BARN_BLOCK_CELLS));
	barn_forget_no_room(cache);
}

void barn_set_limits(struct sheaf_cache *cache)
{
	struct limits from, now;

	/*
	 * Two threads may do this together: the one that stores last saw what the other changed
	 * before. Each changes its part, passes the first fence, stores, passes the second fence,
	 * and reads. Of two such fences in two threads one comes first, and pairs with the other
	 * thread's.
	 */
	do {
		os_fence();
		from = read_limits(cache);
		compute_limits(cache, &from);
		os_fence();
		now = read_limits(cache);
	} while (memcmp(&from, &now, sizeof(now)) != 0);
}

void sheaf_set_capacity(struct sheaf_cache *cache, unsigned int capacity)
{
	os_store_relaxed(&cache->capacities, sheaf_capacities(0, capacity));
	barn_set_limits(cache);
}

void sheaf_choose_capacity(struct sheaf_cache *cache, unsigned int first)
{
	os_store_relaxed(&cache->capacities, sheaf_capacities(first, first));
	sheaf_forget_flow(cache);
}

void sheaf_set_barn_full(struct sheaf_cache *cache, unsigned int sheaves)
{
	os_store_relaxed(&cache->barn_objects, sheaves ? sheaves | IN_SHEAVES : 0);
	os_store_relaxed(&cache->barn_kib, 0);
	barn_set_limits(cache);
}

unsigned int barn_most_full(const struct sheaf_cache *cache)
{
	struct limits from = read_limits(cache);

	return os_load_relaxed(&cache->barn_full) +
	       os_load_relaxed(&cache->shard_full) * (unsigned int)cpus_of(&from);
}

void sheaf_set_barn(struct sheaf_cache *cache, size_t objects, size_t bytes)
{
	size_t kib = bytes / 1024 + (bytes % 1024 != 0);

	os_store_relaxed(&cache->barn_objects, (uint32_t)least(objects, IN_SHEAVES - 1));
	os_store_relaxed(&cache->barn_kib, (uint32_t)least(kib, UINT32_MAX));
	barn_set_limits(cache);
}

bool sheaf_cache_init(struct sheaf_cache *cache, void *handle, unsigned int capacity)
{
	cache->at.handle = handle;
	if (!capacity)
		return true;
	if (!barn_init(cache))
		return false;
	cache->capacities = sheaf_capacities(capacity, capacity);
	barn_set_limits(cache);
	return true;
}
