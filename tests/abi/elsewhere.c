/* SPDX-License-Identifier: MIT */
/* See elsewhere.h; C and C++. */
#include "elsewhere.h"

void *alloc_elsewhere(struct kmem_cache *s)
{
	return kmem_cache_alloc(s, GFP_KERNEL);
}

void free_elsewhere(struct kmem_cache *s, void *object)
{
	kmem_cache_free(s, object);
}

void *kmalloc_elsewhere(size_t size)
{
	return kmalloc(size, GFP_KERNEL);
}
