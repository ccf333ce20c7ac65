/* SPDX-License-Identifier: MIT */
/*
 * SLAB_TYPESAFE_BY_RCU: an empty slab's pages go back a grace period late, so that a reader may
 * look at any object it once found, which is still one of this cache, if perhaps another one.
 *
 * Slabs that wait (grace/list.h) keep their cache, and count as its slabs.
 *
 * Callers: src/slab/, src/cache/.
 */
#ifndef SHEAF_SLAB_LATE_H
#define SHEAF_SLAB_LATE_H

#include "grace/list.h"
#include "slab/slab.h"

/* Let the cache's slabs wait from now on. False: no memory. */
bool late_init(struct slab_cache *cache, struct grace *grace);
/* None may wait. */
void late_exit(struct slab_cache *cache);

void late_discard(struct slab_cache *cache, struct slab *slab);

#endif
