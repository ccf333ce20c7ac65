/* SPDX-License-Identifier: MIT */
/* What a cache's use tells about it; see flow.c. Callers: src/percpu/, src/cache/. */
#ifndef SHEAF_PERCPU_FLOW_H
#define SHEAF_PERCPU_FLOW_H

#include "percpu/sheaf.h"

/* A full sheaf from a barn is about to be allocated from on this CPU: see flow.c. */
void sheaf_flow(struct sheaf_cache *cache, const struct sheaf *full, unsigned int cpu);
/* The same with a sheaf whose objects no CPU has touched for a grace period. */
void sheaf_flow_cold(struct sheaf_cache *cache);
/* Count a swap, or an exchange. True for a while after sheaves became larger. */
bool sheaf_see_volume(struct sheaf_cache *cache);
/* Begin anew, with the first capacity. */
void sheaf_forget_flow(struct sheaf_cache *cache);

#endif
