/* SPDX-License-Identifier: MIT */
/* What a drain of every CPU does for the layer above; the drain of a cache's free objects is in sheaf.h. */
#ifndef SHEAF_PERCPU_DRAIN_H
#define SHEAF_PERCPU_DRAIN_H

#include "percpu/sheaf.h"

/* Take every CPU's rcu_free sheaf, and call taken for each while no other drain can run. */
bool drain_rcu(struct sheaf_cache *cache,
	       void (*taken)(void *data, struct sheaf *sheaf, unsigned int row), void *data);

#endif
