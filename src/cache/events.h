/* SPDX-License-Identifier: MIT */
/*
 * Every number in the statistics of a cache: its settings, its current state, its events. All
 * formats of statistics, and the file that other processes read, are made from these lists. struct
 * kmem_cache_stats and its man page have the same names and texts: scripts/check-lists. Callers:
 * src/cache/, src/stats/.
 */
#ifndef SHEAF_CACHE_EVENTS_H
#define SHEAF_CACHE_EVENTS_H

#include "rcu/stat.h"

/* X(name, its text) */
#define STAT_SETTINGS(X)                                                                           \
	X(object_size, "bytes of an object, as requested")                                         \
	X(slab_size, "bytes from object to object")                                                \
	X(align, "alignment of objects in bytes")                                                  \
	X(objs_per_slab, "objects of a slab")                                                      \
	X(order, "a slab has 2^order pages")                                                       \
	X(sheaf_capacity, "objects of a new sheaf, 0 without sheaves")                             \
	X(min_partial, "empty slabs a node keeps")                                                 \
	X(aliases, "further names that share the cache")                                           \
	X(hwcache_align, "1 if objects are aligned to cache lines")                                \
	X(reclaim_account, "1 if objects can be reclaimed")                                        \
	X(account, "1 if allocations are charged")                                                 \
	X(ctor, "1 if objects are constructed")                                                    \
	X(destroyed, "1 if destroyed while objects were in use")                                   \
	X(usersize, "bytes of an object that may be copied to users")                              \
	X(destroy_by_rcu, "1 if slabs are freed after a grace period")                             \
	X(sanity_checks, "1 if each call is checked: slab_debug=F")                                \
	X(red_zone, "1 if objects have red zones: slab_debug=Z")                                   \
	X(poison, "1 if free objects are poisoned: slab_debug=P")                                  \
	X(store_user, "1 if users of objects are recorded: slab_debug=U")                          \
	X(trace, "1 if each call is reported: slab_debug=T")                                       \
	X(failslab, "1 if allocations are made to fail: slab_debug=A")                             \
	X(limit_barn_full, "full sheaves that a node's barn may hold")                             \
	X(limit_barn_empty, "empty sheaves kept in a barn; 0: all")                                \
	X(set_by, "who set what, two bits each")

#define STAT_GAUGES(X)                                                                             \
	X(objects, "objects in use, in sheaves, or pending")                                       \
	X(objects_in_use, "objects that the program uses")                                         \
	X(objects_in_sheaves, "free objects in sheaves")                                           \
	X(total_objects, "objects that slabs have room for")                                       \
	X(slabs, "slabs")                                                                          \
	X(partial, "slabs on the lists of partial slabs")                                          \
	X(objects_partial, "objects in use of slabs on these lists")                               \
	X(slab_bytes, "bytes of memory of slabs")                                                  \
	X(waste_bytes, "bytes of slabs that no object can use")                                    \
	X(limit_bytes, "most slab_bytes, 0: no limit")                                             \
	X(limit_failures, "allocations that failed at the limit")                                  \
	X(peak_slab_bytes, "most slab_bytes so far, 0 unless counted")                             \
	X(barn_full, "full sheaves in barns")                                                      \
	X(barn_partial, "partly filled sheaves in barns")                                          \
	X(barn_empty, "empty sheaves in barns")                                                    \
	X(rcu_pending_objects, "objects that wait for a grace period")                             \
	X(rcu_pending_bytes, "bytes of objects that wait for a grace period")

/* X(name, the words whose sum it is, its text) */
#define STAT_EVENTS(X) SLAB_EVENTS(STAT_OWN, X) PERCPU_EVENTS(STAT_OWN, X) RCU_EVENTS(STAT_OWN, X)

_Static_assert(NR_RCU_WORDS <= OS_WORDS, "counters fit their place");

#endif
