/* SPDX-License-Identifier: MIT */
/* How many sheaves a barn may hold; see barn.h. */
#include <string.h>

#include "os/atomic.h"
#include "os/machine.h"
#include "sheaf/barn.h"

/* What they are computed from. */
struct limits {
	size_t capacity, objects, bytes;
};

static struct limits read_limits(const struct sheaf_cache *cache)
{
	return (struct limits){sheaf_capacity(cache), os_load_relaxed(&cache->barn_objects),
			       os_load_relaxed(&cache->barn_bytes)};
}

static void compute_limits(struct sheaf_cache *cache, const struct limits *from)
{
	/* Possible CPUs may be many more than there are. */
	size_t cpus = (os_nr_cpus() + os.nr_nodes - 1) / os.nr_nodes;
	size_t most = cpus * SLOT_CELLS + BARN_BLOCKS * BARN_BLOCK_CELLS;
	size_t sheaves = from->objects / from->capacity;
	size_t by_bytes = from->bytes / (from->capacity * cache->slab.size);
	size_t shard, rest;

	sheaves = sheaves < by_bytes ? sheaves : by_bytes;
	sheaves = sheaves < BARN_FLOOR ? BARN_FLOOR : sheaves > most ? most : sheaves;
	/* Three quarters to the shards; none, if there are more CPUs than that. */
	shard = sheaves * 3 / 4 / cpus;
	shard = shard > SLOT_CELLS ? SLOT_CELLS : shard;
	rest = sheaves - shard * cpus;
	os_store_relaxed(&cache->shard_full, (uint32_t)shard);
	os_store_relaxed(&cache->barn_full, (uint32_t)rest);
}

void barn_set_limits(struct sheaf_cache *cache)
{
	struct limits from, now;

	/* Two at once: who stored last looks at what the other one has changed before. */
	do {
		os_fence();
		from = read_limits(cache);
		compute_limits(cache, &from);
		os_fence();
		now = read_limits(cache);
	} while (memcmp(&from, &now, sizeof(now)) != 0);
}
