/* SPDX-License-Identifier: MIT */
/*
 * Object layout and slab order, by the kernel's rules (calculate_sizes, calculate_order).
 *
 *   | object_size | padding to a word and to align |      = size
 *
 * With bytes before and after each object, for a layer above:
 *
 *   | padding | before | object_size | after, padding | before | object_size | ...
 *             ^                  `first` is here ^ of each slab, and aligned
 *             `------------------ size ----------------'
 *
 * The kernel's caches with a constructor or SLAB_TYPESAFE_BY_RCU have a word more, for the link of
 * free objects.
 */
#include <string.h>

#include "os/machine.h"
#include "os/options/options.h"
#include "page/object_marks.h"
#include "page/pool.h"
#include "slab/slab.h"

static uint32_t round_up(uint32_t value, uint32_t align)
{
	return (value + align - 1) & ~(align - 1);
}

/* Of a positive value. */
static unsigned int fls(unsigned int value)
{
	return 32 - (unsigned int)__builtin_clz(value);
}

static uint32_t before_of(const struct slab_cache *cache)
{
	return cache->extra ? cache->extra->before : 0;
}

/* Behind the last object, only the bytes of `after` are needed. */
static size_t objects_with_extra(const struct slab_cache *cache, size_t bytes)
{
	size_t last = cache->first + cache->object_size + cache->extra->after;

	return bytes < last ? 0 : (bytes - last) / cache->size + 1;
}

static unsigned int objects_of_order(const struct slab_cache *cache, unsigned int order)
{
	size_t bytes = OS_PAGE << order, objects = bytes / cache->size;

	if (cache->extra)
		objects = objects_with_extra(cache, bytes);

	return objects < SLAB_MAX_OBJECTS ? (unsigned int)objects : SLAB_MAX_OBJECTS;
}

static bool waste_is_at_most(const struct slab_cache *cache, unsigned int order,
			     unsigned int fraction)
{
	size_t bytes = OS_PAGE << order;
	size_t waste = bytes - (size_t)objects_of_order(cache, order) * cache->size;

	return waste <= bytes / fraction;
}

static unsigned int order_holding(const struct slab_cache *cache, unsigned int objects)
{
	unsigned int order = 0;

	while (order < PAGE_WIDE_ORDER && objects_of_order(cache, order) < objects)
		order++;
	return order;
}

/* The system locks whole pages of its own. */
static uint16_t least_order(unsigned int order, bool secret)
{
	while (secret && OS_PAGE << order < os.page_size)
		order++;
	return (uint16_t)order;
}

/*
 * The kernel's order of 3 (32 KiB) holds one object of 20 KiB, and wastes a third of the slab. So
 * slabs of few objects of kmalloc(), whose sizes are not the kernel's, may be larger, unless
 * slab_max_order is lower than the kernel's. Half of FEW_MAX_ORDER's bytes would still waste a
 * quarter or an eighth at 14 KiB and above; double would save an eighth at 28 KiB only.
 */
#define FEW_OBJECTS   8
#define FEW_MAX_ORDER 5
#define KERNEL_ORDER  3

static unsigned int largest_order(const struct slab_cache *cache, bool fill)
{
	unsigned int most = os_options.max_order;

	while (fill && most >= KERNEL_ORDER && most < FEW_MAX_ORDER &&
	       objects_of_order(cache, most) < FEW_OBJECTS)
		most++;
	return most;
}

/* Larger objects would keep more memory: of 512 bytes, with 95 % of them freed at random, a third
 * of the slabs of a page has one in use, and 81 % of those of four pages. */
#define SMALL 128

uint32_t slab_small_order;

/* The smallest order that wastes few enough bytes and holds at least min_objects. */
static unsigned int preferred_order(const struct slab_cache *cache, bool fill)
{
	unsigned int most = largest_order(cache, fill), wanted = os_options.min_objects, least;
	unsigned int fits = objects_of_order(cache, os_options.max_order);

	if (!wanted)
		wanted = 4 * (fls(os_nr_cpus()) + 1);
	if (wanted > fits)
		wanted = fits;
	least = order_holding(cache, wanted);
	if (least < os_options.min_order)
		least = os_options.min_order;
	if (cache->size <= SMALL && least < slab_small_order && !os_options.tiny)
		least = slab_small_order;
	if (most < least)
		most = least;
	for (unsigned int fraction = 16; fraction > 1; fraction /= 2)
		for (unsigned int order = least; order <= most; order++)
			if (objects_of_order(cache, order) &&
			    waste_is_at_most(cache, order, fraction))
				return order;
	return order_holding(cache, 1);
}

/* A slab that was given back can no longer be checked, so caches with checks keep some anyway. */
static uint16_t min_partial(const struct slab_cache *cache, bool fill)
{
	uint32_t n = (fls(cache->size) - 1) / 2;

	if (os_options.tiny && !cache->extra)
		return 0;
	/* The kernel's limit of 10 is that of the largest objects. */
	n = n < 5 ? 5 : n;
	/* Of larger slabs, as many bytes. */
	if ((fill || cache->oo.order > PAGE_MAX_ORDER - 1) && cache->oo.order > KERNEL_ORDER)
		n >>= cache->oo.order - KERNEL_ORDER;
	return (uint16_t)(n ? n : 1);
}

static size_t nodes_bytes(void)
{
	return os.nr_nodes * sizeof(struct slab_node *) + sizeof(struct slab_rest);
}

bool slab_cache_init(struct slab_cache *cache, const struct slab_request *request)
{
	uint32_t after = request->extra ? request->extra->after : 0;

	memset(cache, 0, sizeof(*cache));
	cache->name = request->name;
	cache->object_size = request->object_size;
	cache->align = request->align;
	cache->ctor = request->ctor;
	cache->extra = request->extra;
	cache->first = round_up(before_of(cache), cache->align);
	cache->size = round_up(before_of(cache) + request->object_size + after, cache->align);
	if (pages.marks && cache->size < MARK_BYTES)
		cache->size = MARK_BYTES;
	cache->reciprocal = (uint32_t)(((UINT64_C(1) << 32) + cache->size - 1) / cache->size);
	cache->oo.order = least_order(preferred_order(cache, request->fill), request->secret);
	cache->oo.objects = (uint16_t)objects_of_order(cache, cache->oo.order);
	cache->min.order = least_order(order_holding(cache, 1), request->secret);
	cache->min.objects = (uint16_t)objects_of_order(cache, cache->min.order);
	cache->min_partial = min_partial(cache, request->fill);
	if (os_options.random)
		cache->random = os_random() | 1;
	if (cache->oo.objects <= 64 || page_use_words())
		cache->nodes = pool_alloc(nodes_bytes());
	if (!cache->nodes)
		slab_cache_exit(cache);
	else
		slab_rest(cache)->secret = request->secret;
	return cache->nodes;
}

void slab_cache_exit(struct slab_cache *cache)
{
	for (uint32_t node = 0; cache->nodes && node < os.nr_nodes; node++)
		pool_free(cache->nodes[node], sizeof(*cache->nodes[node]));
	pool_free(cache->nodes, nodes_bytes());
	cache->nodes = NULL;
}
