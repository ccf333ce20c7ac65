/* SPDX-License-Identifier: MIT */
/*
 * Sheaves without waiting, for signal handlers that may interrupt any line of this library.
 *
 * Signals abort sections, barn cells change with one exchange, and these calls touch neither the
 * pool nor a lock. A sheaf that is taken out of a slot is left in the cell where its successor was;
 * if it cannot be left there as it is, it is emptied object by object.
 *
 * Callers: src/cache/.
 */
#ifndef SHEAF_PERCPU_NOLOCK_H
#define SHEAF_PERCPU_NOLOCK_H

#include "percpu/sheaf.h"

/* Take an object from a sheaf, or return NULL. */
void *nolock_alloc(struct sheaf_cache *cache);
/* Put an object of this CPU's node into a sheaf. Returns false if there is no room at once. */
bool nolock_free(struct sheaf_cache *cache, void *object);

/* List the slabs that calls without waiting left, if there are any. Slow paths begin
 * with this. */
void sheaf_give_deferred(struct sheaf_cache *cache);

#endif
