/* SPDX-License-Identifier: MIT */
/* What is counted in sheaves themselves; see harvest.c. Callers: src/percpu/, src/cache/, src/stats/. */
#ifndef SHEAF_PERCPU_HARVEST_H
#define SHEAF_PERCPU_HARVEST_H

#include "percpu/sheaf.h"

/* What went through a sheaf since it came to its slot with `base` objects. */
struct sheaf_traffic {
	uint64_t pops, pushes;
};
struct sheaf_traffic sheaf_traffic_of(uint64_t word, uint32_t base);

/* Add up what was counted in a sheaf that left its slot. Once; it counts from its size again. */
void sheaf_harvest(struct sheaf_cache *cache, struct sheaf *sheaf);

/* Take up to n objects from main, as section_pop_bulk() does, counted. */
unsigned int sheaf_pop_bulk(struct sheaf_cache *cache, void **objects, unsigned int n);

#endif
