/* SPDX-License-Identifier: MIT */
/*
 * Counts in the sheaves themselves: the word that a pop commits also counts pops (os/section.h).
 * They are harvested when the sheaf leaves its slot. Until then others see copies (os/view.h).
 */
#include "percpu/sheaf.h"
#include "percpu/stat.h"

struct sheaf_traffic sheaf_traffic_of(uint64_t word, uint32_t base)
{
	uint64_t pops = (word & (SHEAF_STEP - 1)) >> SHEAF_SIZE_BITS;

	return (struct sheaf_traffic){pops, (word & SHEAF_SIZE) + pops - base};
}

void sheaf_harvest_counted(struct sheaf_cache *cache, struct sheaf *sheaf)
{
	struct sheaf_traffic traffic = sheaf_traffic_of(sheaf->word, sheaf->base);

	stat_add(&cache->slab, STAT_alloc_fastpath, traffic.pops);
	stat_add(&cache->slab, STAT_free_fastpath, traffic.pushes);
	sheaf_set_size(sheaf, (uint32_t)sheaf->word & SHEAF_SIZE);
}

/* The uppermost bits do not count objects that are taken together: so take one object fewer, and
 * the slow path that must follow samples that one. */
static unsigned int without_sample(struct sheaf_cache *cache, unsigned int n)
{
	if (!os_load_relaxed(&cache->sampled) ||
	    !sample_is_taken((size_t)n * cache->slab.object_size))
		return n;
	os_store_relaxed(&cache->sampled, SHEAF_SAMPLE_BULK);
	return n - 1;
}

bool sheaf_takes_sample(struct sheaf_cache *cache)
{
	uint32_t due = SHEAF_SAMPLE_BULK;

	return os_load_relaxed(&cache->sampled) == due &&
	       os_cmpxchg(&cache->sampled, &due, SHEAF_SAMPLED);
}

static OS_NOINLINE unsigned int pop_counted(struct sheaf_cache *cache, void **objects,
					    unsigned int n)
{
	n = n ? section_pop_bulk(&cache->at, objects, n) : 0;
	/* The word counts no pops, but shows fewer objects than were pushed. */
	stat_add(&cache->slab, STAT_alloc_fastpath, n);
	stat_add(&cache->slab, STAT_free_fastpath, n);
	return n;
}

unsigned int sheaf_pop_all(struct sheaf_cache *cache, void **objects, unsigned int n)
{
	if (os_likely(!cache->slab.counted))
		return section_pop_bulk(&cache->at, objects, n);
	return pop_counted(cache, objects, n);
}

unsigned int sheaf_pop_bulk(struct sheaf_cache *cache, void **objects, unsigned int n)
{
	if (os_likely(!cache->slab.counted))
		return section_pop_bulk(&cache->at, objects, n);
	return pop_counted(cache, objects, without_sample(cache, n));
}
