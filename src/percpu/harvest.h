/* SPDX-License-Identifier: MIT */
/* Counts in the sheaves themselves; see harvest.c. Callers: src/percpu/, src/cache/, src/stats/. */
#ifndef SHEAF_PERCPU_HARVEST_H
#define SHEAF_PERCPU_HARVEST_H

#include "percpu/sheaf.h"

/* Pushes and pops of a sheaf since it arrived in its slot with `base` objects. */
struct sheaf_traffic {
	uint64_t pops, pushes;
};
struct sheaf_traffic sheaf_traffic_of(uint64_t word, uint32_t base);

/* Add up the counts of a sheaf that left its slot. Call it once; the sheaf then counts from its
 * size. */
void sheaf_harvest(struct sheaf_cache *cache, struct sheaf *sheaf);

/* Take up to n objects from main, as section_pop_bulk() does, counted. */
unsigned int sheaf_pop_all(struct sheaf_cache *cache, void **objects, unsigned int n);
/* The same for an allocation: one fewer if one of them is to be a sample. */
unsigned int sheaf_pop_bulk(struct sheaf_cache *cache, void **objects, unsigned int n);
/* A slow path after that: is the next object to be a sample? */
bool sheaf_takes_sample(struct sheaf_cache *cache);

#endif
