/* SPDX-License-Identifier: MIT */
/*
 * How many objects sheaves have room for, and how many sheaves barns: from the size of objects, from what the
 * user sets, and from the CPUs that use the cache. Callers: src/percpu/, src/cache/.
 */
#ifndef SHEAF_PERCPU_LIMITS_H
#define SHEAF_PERCPU_LIMITS_H

#include "percpu/sheaf.h"

/* The kernel's capacity for a stride of so many bytes. */
unsigned int sheaf_capacity_for(uint32_t size);

/* Give the cache its slots and barns; its slab part must be laid out. False: no memory. barn_exit() releases
 * them, when the cache is drained and used by nobody. */
bool sheaf_cache_init(struct sheaf_cache *cache, void *handle, unsigned int capacity);

/* From now on new sheaves have this capacity (1 ... SHEAF_CAPACITY_MAX), and keep it. */
void sheaf_set_capacity(struct sheaf_cache *cache, unsigned int capacity);
/* Bound each node's barn by objects and bytes, 0 as by default: see barn.h. */
void sheaf_set_barn(struct sheaf_cache *cache, size_t objects, size_t bytes);

/* Compute barn_full and shard_full from the limits, the capacity and the CPUs: see barn.h. */
void barn_set_limits(struct sheaf_cache *cache);
/* CPUs in use: those of all nodes, the program's or this cache's, whichever are more. */
unsigned int barn_cpus(const struct sheaf_cache *cache);

#endif
