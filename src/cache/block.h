/* SPDX-License-Identifier: MIT */
/* What a pointer is, whatever it came from. Callers: src/cache/. */
#ifndef SHEAF_CACHE_BLOCK_H
#define SHEAF_CACHE_BLOCK_H

#include "cache/cache.h"
#include "os/atomic.h"

enum block_kind {
	BLOCK_NONE, /* no memory of ours */
	BLOCK_OBJECT,
};

struct block {
	enum block_kind kind;
	struct kmem_cache *cache;
	char *start;
	size_t size;
};

static inline struct block block_of(const void *pointer)
{
	struct slab_cache *owner = page_owner(pointer);

	if (!owner)
		return (struct block){BLOCK_NONE, NULL, NULL, 0};
	return (struct block){BLOCK_OBJECT, cache_of_slab(owner), NULL, owner->object_size};
}

static inline void cache_free_any(void *pointer, const char *call)
{
	(void)call;
	kmem_cache_free_bulk(NULL, 1, &pointer);
}

#endif
