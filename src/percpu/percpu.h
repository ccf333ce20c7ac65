/* SPDX-License-Identifier: MIT */
/*
 * Objects from sheaves and into them, when the fast path has none or no room. Callers: src/cache/.
 */
#ifndef SHEAF_PERCPU_PERCPU_H
#define SHEAF_PERCPU_PERCPU_H

#include "percpu/sheaf.h"

/* When the fast path found nothing: get a sheaf with objects and pop. NULL: ask the slabs. */
void *sheaf_alloc(struct sheaf_cache *cache);
/* When the fast path found no room: get a sheaf with room and push. False: to the slab. */
bool sheaf_free(struct sheaf_cache *cache, void *object);
/* As many of n objects as sheaves hold. */
unsigned int sheaf_alloc_bulk(struct sheaf_cache *cache, void **objects, unsigned int n);
/* As many of n objects, all of this CPU's node, as sheaves have room for. */
unsigned int sheaf_free_bulk(struct sheaf_cache *cache, void **objects, unsigned int n);

#endif
