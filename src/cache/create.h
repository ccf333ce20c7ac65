/* SPDX-License-Identifier: MIT */
/* How caches begin and end. Callers: src/cache/, src/kmalloc/. */
#ifndef SHEAF_CACHE_CREATE_H
#define SHEAF_CACHE_CREATE_H

#include "cache/cache.h"

/* kmem_cache_create(), except that its reports are deferred. */
struct kmem_cache *cache_create(const char *name, size_t size, const struct kmem_cache_args *args,
				slab_flags_t flags);

/* In destroy.c: free all of it except the handle, which then has no owner. The cache is on no list,
 * and no object is in use. */
void cache_unmake(struct kmem_cache *s);

#endif
