/* SPDX-License-Identifier: MIT */
/* SLAB_TYPESAFE_BY_RCU: an empty slab's pages are returned one grace period later. So memory that a
 * reader found stays an object of this cache while the reader looks at it, although it may become a
 * different object.
 *
 * Slabs that wait (grace/list.h) keep their cache, and count as its slabs.
 *
 * Callers: src/slab/, src/cache/.
 */
#ifndef SHEAF_SLAB_RCU_FREE_SLAB_H
#define SHEAF_SLAB_RCU_FREE_SLAB_H

#include "grace/list.h"
#include "slab/slab.h"

/* Let the cache's slabs wait from now on. False: no memory. */
bool late_init(struct slab_cache *cache, struct grace *grace);
/* No slab may wait. */
void late_exit(struct slab_cache *cache);

void late_discard(struct slab_cache *cache, struct slab *slab);

#endif
