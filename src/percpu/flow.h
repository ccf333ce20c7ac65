/* SPDX-License-Identifier: MIT */
/* How a cache is used; see flow.c. Callers: src/percpu/, src/cache/. */
#ifndef SHEAF_PERCPU_FLOW_H
#define SHEAF_PERCPU_FLOW_H

#include "percpu/sheaf.h"

/* This CPU is about to allocate from a full sheaf that was in no slot: see flow.c. */
void sheaf_flow(struct sheaf_cache *cache, const struct sheaf *full, unsigned int cpu);
/* Count a swap, exchange, refill or flush. Returns true for a while after sheaves became larger. */
bool sheaf_see_volume(struct sheaf_cache *cache);
/* This CPU's shard has no full sheaf for an allocation or, with too_many, no room for another. */
void barn_note_imbalance(struct sheaf_cache *cache, unsigned int cpu, bool too_many);
/* Start over with the first capacity and budget. */
void sheaf_forget_flow(struct sheaf_cache *cache);

#endif
