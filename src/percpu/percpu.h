/* SPDX-License-Identifier: MIT */
/*
 * Allocate from sheaves and free into them, when the fast path has no object or no room. Callers:
 * src/cache/.
 */
#ifndef SHEAF_PERCPU_PERCPU_H
#define SHEAF_PERCPU_PERCPU_H

#include "percpu/sheaf.h"

/*
 * Called when the fast path found no object: get a sheaf with objects and pop. NULL: use the slabs.
 */
void *sheaf_alloc(struct sheaf_cache *cache);
/* Called when the fast path found no room: get a sheaf with room and push. False: use the slab. */
bool sheaf_free(struct sheaf_cache *cache, void *object);
/* Allocate up to n objects, as many as sheaves hold. Returns their number. */
unsigned int sheaf_alloc_bulk(struct sheaf_cache *cache, void **objects, unsigned int n);
/* Free up to n objects, all of this CPU's node, as many as sheaves have room for. Returns their
 * number. */
unsigned int sheaf_free_bulk(struct sheaf_cache *cache, void **objects, unsigned int n);

#endif
