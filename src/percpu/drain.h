/* SPDX-License-Identifier: MIT */
/* Reaches every CPU's sheaves; see drain.c. Callers: src/rcu/, src/cache/. */
#ifndef SHEAF_PERCPU_DRAIN_H
#define SHEAF_PERCPU_DRAIN_H

#include "percpu/sheaf.h"

/* Empty every CPU's slots and every barn into the slabs, and wait for sheaves in hand. Returns
 * false if only this CPU's slot could be reached. */
bool sheaf_drain(struct sheaf_cache *cache);

/* Take every CPU's rcu_free sheaf, and call taken for each while no other drain can run. */
bool drain_rcu(struct sheaf_cache *cache,
	       void (*taken)(void *data, struct sheaf *sheaf, unsigned int row), void *data);

/* Call visit for each sheaf of a quiet cache. */
void sheaf_for_each(struct sheaf_cache *cache, void (*visit)(void *data, struct sheaf *sheaf),
		    void *data);

/* Around fork(): no drain runs; in the child, sheaves in the hands of vanished threads are lost. */
void sheaf_lock_drains(void);
void sheaf_unlock_drains(void);
/* Forget the sheaves that vanished threads had in hand; returns their number. */
unsigned int sheaf_after_fork(struct sheaf_cache *cache);

#endif
