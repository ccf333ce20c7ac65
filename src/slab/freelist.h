/* SPDX-License-Identifier: MIT */
/*
 * The links of a freelist, as they lie in the free objects: the index of the next one.
 *
 * With slab_freelist_hardened the value is mixed with the cache's secret and the byte-swapped
 * address of its place, so that a link cannot be forged without knowing the secret, nor copied from
 * another object. In either form a value that is not an index of the slab is found when it is read.
 *
 * Links of deferred objects are mixed in the same way.
 * Callers: src/slab/ only.
 */
#ifndef SHEAF_SLAB_FREELIST_H
#define SHEAF_SLAB_FREELIST_H

#include "slab/slab.h"

static inline uint64_t freelist_mask(const struct slab_cache *cache, const void *place)
{
	return cache->secret ? cache->secret ^ __builtin_bswap64((uintptr_t)place) : 0;
}

static inline void freelist_link(const struct slab_cache *cache, void *object, unsigned int next)
{
	uint64_t *place = (uint64_t *)((char *)object + cache->offset);

	/* Not an atomic one: the object is ours until the exchange that publishes it. */
	*place = next ^ freelist_mask(cache, place);
}

/* The index that follows this object's; anything above SLAB_MAX_OBJECTS but SLAB_NO_OBJECT is a
 * corrupted link. */
static inline uint64_t freelist_next(const struct slab_cache *cache, const void *object)
{
	const uint64_t *place = (const uint64_t *)((const char *)object + cache->offset);

	return *place ^ freelist_mask(cache, place);
}

#endif
