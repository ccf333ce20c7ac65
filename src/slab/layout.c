/* SPDX-License-Identifier: MIT */
/*
 * Object layout and slab order, by the kernel's rules (calculate_sizes, calculate_order).
 *
 *   | object_size | free pointer, if outside | padding to align |      = size
 */
#include <string.h>

#include "os/machine.h"
#include "os/options.h"
#include "page/pool.h"
#include "slab/slab.h"

#define WORD sizeof(void *)

static uint32_t round_up(uint32_t value, uint32_t align)
{
	return (value + align - 1) & ~(align - 1);
}

static unsigned int fls(unsigned int value)
{
	return value ? 32 - (unsigned int)__builtin_clz(value) : 0;
}

static unsigned int objects_of_order(uint32_t size, unsigned int order)
{
	size_t objects = (OS_PAGE << order) / size;

	return objects < SLAB_MAX_OBJECTS ? (unsigned int)objects : SLAB_MAX_OBJECTS;
}

static bool waste_is_at_most(uint32_t size, unsigned int order, unsigned int fraction)
{
	size_t bytes = OS_PAGE << order;
	size_t waste = bytes - (size_t)objects_of_order(size, order) * size;

	return waste <= bytes / fraction;
}

static unsigned int order_holding(uint32_t size, unsigned int objects)
{
	unsigned int order = 0;

	while (order < PAGE_MAX_ORDER && objects_of_order(size, order) < objects)
		order++;
	return order;
}

/* The smallest order with few enough bytes wasted, from the one that holds min_objects on. */
static unsigned int preferred_order(uint32_t size)
{
	unsigned int most = os_options.max_order, least = os_options.min_order;
	unsigned int wanted = os_options.min_objects, fits = objects_of_order(size, most);

	if (!wanted)
		wanted = 4 * (fls(os_nr_cpus()) + 1);
	if (wanted > fits)
		wanted = fits;
	if (least < order_holding(size, wanted))
		least = order_holding(size, wanted);
	for (unsigned int fraction = 16; fits && fraction > 1; fraction /= 2)
		for (unsigned int order = least; order <= most; order++)
			if (waste_is_at_most(size, order, fraction))
				return order;
	return order_holding(size, 1);
}

static void place_freeptr(struct slab_cache *cache, const struct slab_request *request)
{
	uint32_t end = round_up(request->object_size, WORD);

	if (request->use_freeptr_offset) {
		cache->offset = request->freeptr_offset;
	} else if (request->freeptr_outside || request->ctor) {
		cache->offset = end;
		end += WORD;
	} else {
		/* The middle: overruns from a neighbour meet data, not the link. */
		cache->offset = request->object_size / 2 & ~(uint32_t)(WORD - 1);
	}
	cache->size = round_up(end, cache->align);
}

/* A shuffled list of indices (Fisher and Yates), one for all slabs of the cache. */
static bool make_random_seq(struct slab_cache *cache)
{
	unsigned int n = cache->oo.objects;
	uint64_t random = cache->secret ? cache->secret : os_random();

	cache->random_seq = pool_alloc(n * sizeof(*cache->random_seq));
	if (!cache->random_seq)
		return false;
	for (unsigned int i = 0; i < n; i++) {
		unsigned int j;

		random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		j = (unsigned int)((random >> 32) % (i + 1));
		cache->random_seq[i] = cache->random_seq[j];
		cache->random_seq[j] = (uint16_t)i;
	}
	return true;
}

static uint16_t min_partial(uint32_t size)
{
	uint32_t n = (fls(size) - 1) / 2;

	return (uint16_t)(n < 5 ? 5 : n > 10 ? 10 : n);
}

bool slab_cache_init(struct slab_cache *cache, const struct slab_request *request)
{
	memset(cache, 0, sizeof(*cache));
	cache->name = request->name;
	cache->object_size = request->object_size;
	cache->align = request->align < WORD ? WORD : request->align;
	cache->ctor = request->ctor;
	place_freeptr(cache, request);
	cache->reciprocal = (uint32_t)(((UINT64_C(1) << 32) + cache->size - 1) / cache->size);
	cache->oo.order = (uint16_t)preferred_order(cache->size);
	cache->oo.objects = (uint16_t)objects_of_order(cache->size, cache->oo.order);
	cache->min.order = (uint16_t)order_holding(cache->size, 1);
	cache->min.objects = (uint16_t)objects_of_order(cache->size, cache->min.order);
	cache->min_partial = min_partial(cache->size);
	if (os_options.hardened)
		cache->secret = os_random() | 1;
	if (os_options.random && cache->oo.objects > 1 && !make_random_seq(cache))
		return false;
	cache->nodes = pool_alloc(os.nr_nodes * sizeof(*cache->nodes));
	if (!cache->nodes)
		slab_cache_exit(cache);
	return cache->nodes;
}

void slab_cache_exit(struct slab_cache *cache)
{
	for (uint32_t node = 0; cache->nodes && node < os.nr_nodes; node++)
		pool_free(cache->nodes[node], sizeof(*cache->nodes[node]));
	pool_free(cache->nodes, os.nr_nodes * sizeof(*cache->nodes));
	pool_free(cache->random_seq, cache->oo.objects * sizeof(*cache->random_seq));
	cache->nodes = NULL;
	cache->random_seq = NULL;
}
