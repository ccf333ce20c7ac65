/* SPDX-License-Identifier: MIT */
/*
 * Whole sheaves in hand. Who has one with free objects shows it (H3): by a barn cell in transit, or by
 * the in-hand count.
 *
 * Callers: src/percpu/ only.
 */
#ifndef SHEAF_PERCPU_WHOLE_H
#define SHEAF_PERCPU_WHOLE_H

#include "percpu/barn.h"
#include "percpu/sheaf.h"

/* An empty sheaf of the cache's capacity, or NULL: from the pool; from the barn, else the pool; from
 * the barn, its cell in transit. */
struct sheaf *whole_new(struct sheaf_cache *cache);
struct sheaf *whole_empty(struct sheaf_cache *cache);
struct sheaf *whole_begin_empty(struct sheaf_cache *cache, struct barn_cell *cell);

/*
 * This CPU's spare sheaf, or NULL: into the hand of a caller who has entered it; or only if it is empty
 * and fits, when no barn need be asked for one, nor be given it.
 */
struct sheaf *whole_take_spare(struct sheaf_cache *cache);
struct sheaf *whole_empty_spare(struct sheaf_cache *cache);

/* One of this capacity from the pool, whatever the cache's is. */
struct sheaf *whole_make(struct sheaf_cache *cache, uint32_t capacity);

/* Is its capacity still the cache's? */
bool whole_fits(struct sheaf_cache *cache, struct sheaf *sheaf);

/*
 * Before a sheaf filled by frees goes on to others: look whose its newest objects are. What was freed to
 * the wrong cache is reported and left out, so the sheaf may have fewer objects afterwards. A sheaf whose
 * objects go to their slabs need not be looked at: there each object is.
 */
void whole_check_newest(struct sheaf_cache *cache, struct sheaf *sheaf, const char *call);

/* Into the barn, counted. False if there is no room. */
bool whole_put_full(struct sheaf_cache *cache, struct sheaf *sheaf);
bool whole_put_empty(struct sheaf_cache *cache, struct sheaf *sheaf);

/* Hand a sheaf over, whatever it is (NULL, too): to the barn, or its objects to the slabs. */
void whole_hand_over(struct sheaf_cache *cache, struct sheaf *sheaf, const char *call);

#endif
