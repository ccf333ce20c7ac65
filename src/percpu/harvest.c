/* SPDX-License-Identifier: MIT */
/*
 * Counts in the sheaves themselves: the word that a pop commits also counts pops (os/section.h).
 * They are harvested when the sheaf leaves its slot. Until then others see copies (os/view.h).
 */
#include "percpu/sheaf.h"
#include "percpu/stat.h"

struct sheaf_traffic sheaf_traffic_of(uint64_t word, uint32_t base)
{
	uint64_t pops = word >> SHEAF_SIZE_BITS;

	return (struct sheaf_traffic){pops, (word & SHEAF_SIZE) + pops - base};
}

void sheaf_harvest_counted(struct sheaf_cache *cache, struct sheaf *sheaf)
{
	struct sheaf_traffic traffic = sheaf_traffic_of(sheaf->word, sheaf->base);

	stat_add(&cache->slab, STAT_alloc_fastpath, traffic.pops);
	stat_add(&cache->slab, STAT_free_fastpath, traffic.pushes);
	sheaf_set_size(sheaf, (uint32_t)sheaf->word & SHEAF_SIZE);
}

static OS_NOINLINE unsigned int pop_counted(struct sheaf_cache *cache, void **objects,
					    unsigned int n)
{
	n = section_pop_bulk(&cache->at, objects, n);
	/* The word counts no pops, but shows fewer objects than were pushed. */
	stat_add(&cache->slab, STAT_alloc_fastpath, n);
	stat_add(&cache->slab, STAT_free_fastpath, n);
	return n;
}

unsigned int sheaf_pop_bulk(struct sheaf_cache *cache, void **objects, unsigned int n)
{
	if (os_likely(!cache->slab.counted))
		return section_pop_bulk(&cache->at, objects, n);
	return pop_counted(cache, objects, n);
}
