/* SPDX-License-Identifier: MIT */
/*
 * How many objects fit into sheaves, and how many sheaves into barns: from the size of objects, the
 * user's settings, and the CPUs that use the cache. Callers: src/percpu/, src/cache/.
 */
#ifndef SHEAF_PERCPU_LIMITS_H
#define SHEAF_PERCPU_LIMITS_H

#include "percpu/sheaf.h"

/* Give the cache its slots and barns; its slab part must be laid out. Returns false if there is no
 * memory. barn_exit() releases them, when the cache is drained and no longer used. */
bool sheaf_cache_init(struct sheaf_cache *cache, void *handle, unsigned int capacity);

/* From now on new sheaves have this capacity (1 ... SHEAF_CAPACITY_MAX), which is then fixed, but
 * for retired objects of a busy cache (flow.c). */
void sheaf_set_capacity(struct sheaf_cache *cache, unsigned int capacity);
/* Limit each node's barn to these objects and bytes, 0 for the default: see barn.h. */
void sheaf_set_barn(struct sheaf_cache *cache, size_t objects, size_t bytes);

/* Compute barn_full and shard_full from the limits, the capacity and the CPUs: see barn.h. */
void barn_set_limits(struct sheaf_cache *cache);
/* A CPU's part of the barn, which grows with use: see flow.c. */
size_t barn_cpu_bytes(const struct sheaf_cache *cache);
/* CPUs in use on all nodes: those on which the program runs, or this cache's, whichever are more;
 * at least 1. */
unsigned int barn_cpus(const struct sheaf_cache *cache);

#endif
