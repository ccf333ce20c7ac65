/* SPDX-License-Identifier: MIT */
/*
 * The sizes of a cache: of its objects, its sheaves and its barns. The last two may change while
 * the cache is in use.
 *
 * Locks: OS_RANK_CACHES around a change, so that published numbers follow in the same order.
 * Callers: programs.
 */
#include "cache/cache.h"
#include "cache/list.h"
#include "cache/publish.h"
#include "os/report.h"
#include "percpu/limits.h"

SHEAF_PUBLIC unsigned int kmem_cache_size(struct kmem_cache *s)
{
	return s->sheaf.slab.object_size;
}

SHEAF_PUBLIC int kmem_cache_set_sheaf_capacity(struct kmem_cache *s, unsigned int capacity)
{
	if (cache_was_destroyed(s, "kmem_cache_set_sheaf_capacity"))
		return -1;
	if (!sheaf_capacity(&s->sheaf) || capacity == 0 || capacity > SHEAF_CAPACITY_MAX) {
		os_misuse(s->name,
			  "kmem_cache_set_sheaf_capacity(%s, %u): the capacity must be from 1 to "
			  "%u, and the cache must have sheaves; nothing changed",
			  s->name, capacity, SHEAF_CAPACITY_MAX);
		return -1;
	}
	os_lock(&caches.lock);
	sheaf_set_capacity(&s->sheaf, capacity);
	publish_cache(s);
	os_unlock(&caches.lock);
	return 0;
}

SHEAF_PUBLIC int kmem_cache_set_barn(struct kmem_cache *s, size_t objects, size_t bytes)
{
	if (cache_was_destroyed(s, "kmem_cache_set_barn"))
		return -1;
	if (!sheaf_capacity(&s->sheaf)) {
		os_misuse(s->name,
			  "kmem_cache_set_barn(%s): this cache has no sheaves; nothing changed",
			  s->name);
		return -1;
	}
	os_lock(&caches.lock);
	sheaf_set_barn(&s->sheaf, objects, bytes);
	os_unlock(&caches.lock);
	return 0;
}

SHEAF_PUBLIC int kmem_cache_set_limit(struct kmem_cache *s, size_t bytes)
{
	if (cache_was_destroyed(s, "kmem_cache_set_limit"))
		return -1;
	os_lock(&caches.lock);
	os_store_relaxed(&slab_rest(&s->sheaf.slab)->limit, bytes);
	/* A cache that is created later must not fail at this limit. */
	if (bytes)
		list_keep_apart(s);
	os_unlock(&caches.lock);
	if (bytes && slab_held_bytes(&s->sheaf.slab) > bytes)
		kmem_cache_shrink(s);
	if (bytes && slab_held_bytes(&s->sheaf.slab) > bytes)
		os_report("kmem_cache_set_limit(%s, %zu): its slabs have %zu bytes; allocations "
			  "that need another slab fail until enough was freed",
			  s->name, bytes, slab_held_bytes(&s->sheaf.slab));
	return 0;
}
