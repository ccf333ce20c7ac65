/* SPDX-License-Identifier: MIT */
/*
 * Sheaves without waiting: what a signal handler may do that interrupted any line of this library.
 *
 * Sections are aborted by signals, barn cells change by one exchange, and neither the pool nor a lock
 * is touched. A sheaf that comes out of a slot is left in the cell that its successor came from; one
 * that cannot be left there as it is, is emptied object by object.
 *
 * Callers: src/cache/.
 */
#ifndef SHEAF_PERCPU_NOLOCK_H
#define SHEAF_PERCPU_NOLOCK_H

#include "percpu/sheaf.h"

/* An object of a sheaf, or NULL. */
void *nolock_alloc(struct sheaf_cache *cache);
/* An object of this CPU's node into a sheaf. False: no room at once. */
bool nolock_free(struct sheaf_cache *cache, void *object);
/* An object to its slab, or to those that wait for the next slow path. */
void nolock_give(struct sheaf_cache *cache, void *object, const char *call);

/* Put back to their slabs what nolock_give() had to defer, if there is any. Slow paths begin by
 * this. */
void sheaf_give_deferred(struct sheaf_cache *cache);

#endif
