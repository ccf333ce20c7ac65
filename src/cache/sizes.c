/* SPDX-License-Identifier: MIT */
/*
 * The calls for the sizes of a cache; see sizes.h.
 *
 * Locks: OS_RANK_CACHES around a change. Callers: programs.
 */
#include "cache/sizes.h"

#include "cache/housekeeping.h"
#include "cache/list.h"
#include "cache/publish.h"
#include "percpu/barn/barn.h"

_Static_assert(OS_CAPACITY_MOST == SHEAF_CAPACITY_MAX, "the option has the same range");

const struct size_kind size_kinds[NR_SIZES] = {
	[SIZE_CAPACITY] = {"capacity", true, SHEAF_CAPACITY_MAX},
	[SIZE_BARN_FULL] = {"barn_full", true, UINT16_MAX},
	[SIZE_LIMIT] = {"limit", false, SIZE_MAX},
	[SIZE_MIN_PARTIAL] = {"min_partial", false, UINT16_MAX},
	[SIZE_BARN_EMPTY] = {"barn_empty", true, UINT16_MAX},
};

/* The kernel's, whose caches end at 8 KiB; a sheaf of larger objects holds as many bytes as one of
 * those. */
unsigned int size_first_capacity(uint32_t stride)
{
	return stride > 16 << 10   ? 1
	       : stride > 8 << 10  ? 2
	       : stride >= OS_PAGE ? 4
	       : stride >= 1024	   ? 12
	       : stride >= 256	   ? 28
				   : 60;
}

void size_note(struct kmem_cache *s, enum size which, enum size_setter by)
{
	uint32_t *all = &slab_rest(&s->sheaf.slab)->set_by;

	os_store_relaxed(all, (*all & ~(3u << 2 * which)) | (uint32_t)by << 2 * which);
}

void size_set(struct kmem_cache *s, enum size which, uint64_t value, enum size_setter by)
{
	struct slab_cache *slab = &s->sheaf.slab;

	os_assert(value <= size_kinds[which].most);
	switch (which) {
	case SIZE_CAPACITY:
		if (value)
			sheaf_set_capacity(&s->sheaf, (unsigned int)value);
		else
			sheaf_choose_capacity(&s->sheaf, size_first_capacity(slab->size));
		break;
	case SIZE_BARN_FULL:
		sheaf_set_barn_full(&s->sheaf, (unsigned int)value);
		break;
	case SIZE_LIMIT:
		os_store_relaxed(&slab_rest(slab)->limit, (size_t)value);
		/* A cache that is created later must not fail at this limit. */
		if (value)
			list_keep_apart(s);
		break;
	case SIZE_BARN_EMPTY:
		os_store_relaxed(&slab_rest(slab)->barn_empty, (uint32_t)value);
		break;
	default:
		os_store_relaxed(&slab->min_partial, (uint16_t)value);
	}
	size_note(s, which, value || which == SIZE_MIN_PARTIAL ? by : SIZE_BY_LIBRARY);
	publish_cache(s);
}

uint64_t size_now(const struct kmem_cache *s, enum size which)
{
	switch (which) {
	case SIZE_CAPACITY:
		return sheaf_capacity(&s->sheaf);
	case SIZE_BARN_FULL:
		return barn_most_full(&s->sheaf);
	case SIZE_LIMIT:
		return os_load_relaxed(&slab_rest(&s->sheaf.slab)->limit);
	case SIZE_BARN_EMPTY:
		return os_load_relaxed(&slab_rest(&s->sheaf.slab)->barn_empty);
	default:
		return os_load_relaxed(&s->sheaf.slab.min_partial);
	}
}

void size_keep_limit(struct kmem_cache *s, const char *call)
{
	size_t limit = (size_t)size_now(s, SIZE_LIMIT);

	if (limit && slab_held_bytes(&s->sheaf.slab) > limit)
		kmem_cache_shrink(s);
	if (limit && slab_held_bytes(&s->sheaf.slab) > limit)
		os_report("%s(%s, %zu): its slabs have %zu bytes; allocations that need another "
			  "slab fail until enough is freed",
			  call, s->name, limit, slab_held_bytes(&s->sheaf.slab));
}

SHEAF_PUBLIC unsigned int kmem_cache_size(struct kmem_cache *s)
{
	if (!s)
		return (unsigned int)cache_report_null("kmem_cache_size");
	return s->sheaf.slab.object_size;
}

/* 0: the cache has it. */
static int refuse_size(struct kmem_cache *s, const char *call, enum size which)
{
	if (cache_is_unusable(s, call))
		return -EINVAL;
	if (size_exists(s, which))
		return 0;
	os_misuse(s->name, "%s(%s): this cache has no sheaves; nothing changed", call, s->name);
	return -ENOTSUP;
}

/* For a program: `least` to the most. */
static int set_size(struct kmem_cache *s, const char *call, enum size which, size_t value,
		    unsigned int least)
{
	int refused = refuse_size(s, call, which);

	if (refused)
		return refused;
	if (value < least || value > size_kinds[which].most) {
		os_misuse(s->name, "%s(%s, %zu): invalid %s; nothing changed. Use %u to %u", call,
			  s->name, value, size_kinds[which].name, least,
			  (unsigned int)size_kinds[which].most);
		return -EINVAL;
	}
	os_lock(&caches.lock);
	size_set(s, which, value, SIZE_BY_PROGRAM);
	os_unlock(&caches.lock);
	return 0;
}

SHEAF_PUBLIC int kmem_cache_set_sheaf_capacity(struct kmem_cache *s, unsigned int capacity)
{
	return set_size(s, "kmem_cache_set_sheaf_capacity", SIZE_CAPACITY, capacity, 1);
}

SHEAF_PUBLIC int kmem_cache_set_min_partial(struct kmem_cache *s, unsigned int slabs)
{
	return set_size(s, "kmem_cache_set_min_partial", SIZE_MIN_PARTIAL, slabs, 0);
}

SHEAF_PUBLIC int kmem_cache_set_limit(struct kmem_cache *s, size_t bytes)
{
	int refused = set_size(s, "kmem_cache_set_limit", SIZE_LIMIT, bytes, 0);

	if (!refused)
		size_keep_limit(s, "kmem_cache_set_limit");
	return refused;
}

SHEAF_PUBLIC int kmem_cache_set_barn(struct kmem_cache *s, size_t objects, size_t bytes)
{
	int refused = refuse_size(s, "kmem_cache_set_barn", SIZE_BARN_FULL);

	if (refused)
		return refused;
	housekeeping_know_grants();
	os_lock(&caches.lock);
	sheaf_set_barn(&s->sheaf, objects, bytes);
	size_note(s, SIZE_BARN_FULL, objects || bytes ? SIZE_BY_PROGRAM : SIZE_BY_LIBRARY);
	publish_cache(s);
	os_unlock(&caches.lock);
	return 0;
}
