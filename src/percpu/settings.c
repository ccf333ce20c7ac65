/* SPDX-License-Identifier: MIT */
/* A cache's per-CPU part from its beginning to its end, and what can be set. See sheaf.h. */
#include "os/atomic.h"
#include "os/machine.h"
#include "os/options.h"
#include "percpu/barn.h"
#include "percpu/sheaf.h"

unsigned int sheaf_capacity_for(uint32_t size)
{
	return size >= OS_PAGE ? 4 : size >= 1024 ? 12 : size >= 256 ? 28 : 60;
}

void sheaf_set_capacity(struct sheaf_cache *cache, unsigned int capacity)
{
	os_store_relaxed(&cache->capacities, sheaf_capacities(0, capacity));
	barn_set_limits(cache);
}

void sheaf_set_barn(struct sheaf_cache *cache, size_t objects, size_t bytes)
{
	os_store_relaxed(&cache->barn_objects, objects);
	os_store_relaxed(&cache->barn_bytes, bytes);
	barn_set_limits(cache);
}

bool sheaf_cache_init(struct sheaf_cache *cache, void *handle, unsigned int capacity)
{
	cache->at.handle = handle;
	if (!capacity)
		return true;
	if (!barn_init(cache))
		return false;
	cache->no_spare_rule = os_options.no_spare_rule;
	cache->capacities = sheaf_capacities(capacity, capacity);
	barn_set_limits(cache);
	return true;
}
