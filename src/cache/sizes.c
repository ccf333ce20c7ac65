/* SPDX-License-Identifier: MIT */
/*
 * The sizes of a cache: of its objects, its sheaves and its barns, and how many empty slabs it
 * keeps. All but the first may change while the cache is in use.
 *
 * Locks: OS_RANK_CACHES around a change, so that published numbers follow in the same order.
 * Callers: programs.
 */

#include "cache/housekeeping.h"
#include "cache/list.h"
#include "cache/publish.h"
#include "percpu/barn/barn.h"

SHEAF_PUBLIC unsigned int kmem_cache_size(struct kmem_cache *s)
{
	if (!s)
		return (unsigned int)cache_report_null("kmem_cache_size");
	return s->sheaf.slab.object_size;
}

/* 0: the sheaves of the cache may change. */
static int refuse_change(struct kmem_cache *s, const char *call)
{
	if (cache_is_unusable(s, call))
		return -EINVAL;
	if (sheaf_capacity(&s->sheaf))
		return 0;
	os_misuse(s->name, "%s(%s): this cache has no sheaves; nothing changed", call, s->name);
	return -ENOTSUP;
}

SHEAF_PUBLIC int kmem_cache_set_sheaf_capacity(struct kmem_cache *s, unsigned int capacity)
{
	int refused = refuse_change(s, "kmem_cache_set_sheaf_capacity");

	if (refused)
		return refused;
	if (capacity == 0 || capacity > SHEAF_CAPACITY_MAX) {
		os_misuse(s->name,
			  "kmem_cache_set_sheaf_capacity(%s, %u): invalid capacity; nothing "
			  "changed. Use 1 to %u",
			  s->name, capacity, SHEAF_CAPACITY_MAX);
		return -EINVAL;
	}
	os_lock(&caches.lock);
	sheaf_set_capacity(&s->sheaf, capacity);
	publish_cache(s);
	os_unlock(&caches.lock);
	return 0;
}

SHEAF_PUBLIC int kmem_cache_set_barn(struct kmem_cache *s, size_t objects, size_t bytes)
{
	int refused = refuse_change(s, "kmem_cache_set_barn");

	if (refused)
		return refused;
	housekeeping_know_grants();
	os_lock(&caches.lock);
	sheaf_set_barn(&s->sheaf, objects, bytes);
	os_unlock(&caches.lock);
	return 0;
}

SHEAF_PUBLIC int kmem_cache_set_min_partial(struct kmem_cache *s, unsigned int slabs)
{
	if (cache_is_unusable(s, "kmem_cache_set_min_partial"))
		return -EINVAL;
	if (slabs > UINT16_MAX) {
		os_misuse(s->name,
			  "kmem_cache_set_min_partial(%s, %u): invalid number of slabs; nothing "
			  "changed. Use 0 to %u",
			  s->name, slabs, UINT16_MAX);
		return -EINVAL;
	}
	os_lock(&caches.lock);
	os_store_relaxed(&s->sheaf.slab.min_partial, (uint16_t)slabs);
	publish_cache(s);
	os_unlock(&caches.lock);
	return 0;
}

SHEAF_PUBLIC int kmem_cache_set_limit(struct kmem_cache *s, size_t bytes)
{
	if (cache_is_unusable(s, "kmem_cache_set_limit"))
		return -EINVAL;
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
			  "that need another slab fail until enough is freed",
			  s->name, bytes, slab_held_bytes(&s->sheaf.slab));
	return 0;
}
