/* SPDX-License-Identifier: MIT */
/* The one list of what is told of a cache. Settings and gauges are here, events in cache/events.h. */
#include "cache/events.h"
#include "stats/stats.h"

/* X(name, kind, what it tells) */
#define SETTINGS_AND_GAUGES(X)                                                                     \
	X(object_size, SETTING, "bytes of an object, as it was asked for")                         \
	X(slab_size, SETTING, "bytes from object to object")                                       \
	X(align, SETTING, "alignment of objects in bytes")                                         \
	X(objs_per_slab, SETTING, "objects of a slab")                                             \
	X(order, SETTING, "a slab has 2^order pages")                                              \
	X(sheaf_capacity, SETTING, "objects of a sheaf, 0 without sheaves")                        \
	X(min_partial, SETTING, "empty slabs a node keeps")                                        \
	X(aliases, SETTING, "further names that share the cache")                                  \
	X(hwcache_align, SETTING, "1 if objects are aligned to cache lines")                       \
	X(reclaim_account, SETTING, "1 if objects can be reclaimed")                               \
	X(account, SETTING, "1 if allocations are charged")                                        \
	X(ctor, SETTING, "1 if objects are constructed")                                           \
	X(destroyed, SETTING, "1 if destroyed while objects were in use")                          \
	X(objects, GAUGE, "objects in use or in sheaves")                                          \
	X(objects_in_use, GAUGE, "objects the program has")                                        \
	X(objects_in_sheaves, GAUGE, "free objects in sheaves")                                    \
	X(total_objects, GAUGE, "objects that slabs have room for")                                \
	X(slabs, GAUGE, "slabs")                                                                   \
	X(partial, GAUGE, "slabs on the lists of partial slabs")                                   \
	X(slab_bytes, GAUGE, "bytes of memory of slabs")                                           \
	X(barn_full, GAUGE, "full sheaves in barns")                                               \
	X(barn_empty, GAUGE, "empty sheaves in barns")                                             \
	X(rcu_pending_objects, GAUGE, "objects that wait for a grace period")                      \
	X(rcu_pending_bytes, GAUGE, "bytes of them")

#define FIELD(name, kind, help)                                                                    \
	{#name, offsetof(struct kmem_cache_stats, name), STATS_##kind, help},
#define EVENT(name, words, help) FIELD(name, COUNTER, help)

const struct stats_field stats_fields[] = {SETTINGS_AND_GAUGES(FIELD) STAT_EVENTS(EVENT)};
const unsigned int stats_nr_fields = sizeof(stats_fields) / sizeof(stats_fields[0]);

/* Beside the list there are the name, id and counted. */
_Static_assert(sizeof(struct kmem_cache_stats) ==
		       SHEAF_STATS_NAME + sizeof(stats_fields) / sizeof(stats_fields[0]) * 8 + 16,
	       "every number is in the list");
