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

/*
 * --- nolock.c ----------------------------------------------------------------------------------
 */

/*
 * Sheaves without waiting, for signal handlers that may interrupt any line of this library.
 *
 * Signals abort sections, barn cells change with one exchange, and these calls touch neither the
 * pool nor a lock. A sheaf that is taken out of a slot is left in the cell where its successor was;
 * if it cannot be left there as it is, it is emptied object by object.
 */

/* Take an object from a sheaf, or return NULL. */
void *nolock_alloc(struct sheaf_cache *cache);
/* Put an object of this CPU's node into a sheaf. Returns false if there is no room now. */
bool nolock_free(struct sheaf_cache *cache, void *object);

/* List the slabs that calls without waiting left, if there are any. Slow paths begin with this. */
void sheaf_give_deferred(struct sheaf_cache *cache);

#endif
