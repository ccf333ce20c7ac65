/* SPDX-License-Identifier: MIT */
/*
 * The barn: where whole sheaves wait. See sheaf.h for its cells and its order.
 *
 * Callers: src/sheaf/ only; with the sheaf's hand counted.
 */
#ifndef SHEAF_SHEAF_BARN_H
#define SHEAF_SHEAF_BARN_H

#include "sheaf/sheaf.h"

/* A full sheaf from this CPU's shard, the node's blocks, or another CPU's shard; NULL: none. */
struct sheaf *barn_take_full(struct sheaf_cache *cache);
struct sheaf *barn_take_empty(struct sheaf_cache *cache);
/* False if the barn is at its limit. */
bool barn_put_full(struct sheaf_cache *cache, struct sheaf *sheaf);
bool barn_put_empty(struct sheaf_cache *cache, struct sheaf *sheaf);

/* Take everything out, linked by `next`. */
struct sheaf *barn_take_all(struct sheaf_cache *cache);
/* Free the blocks. The barn must be empty. */
void barn_exit(struct sheaf_cache *cache);
/* Compute barn_full, barn_empty and shard_full from the limits and the capacity. */
void barn_set_limits(struct sheaf_cache *cache);

/* Call visit for each array of cells the cache has. */
void barn_for_each_cells(struct sheaf_cache *cache,
			 void (*visit)(void *data, uintptr_t *cells, unsigned int n), void *data);

static inline struct sheaf *barn_cell_sheaf(uintptr_t cell)
{
	return (struct sheaf *)(cell & ~(uintptr_t)1);
}

#endif
