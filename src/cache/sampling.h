/* SPDX-License-Identifier: MIT */
/*
 * Which caches are sampled (debug/sample.h): those with slab_debug=S, and, while the heap profile
 * is on (debug/profile.h), all but type-stable ones and those of secrets. It can be switched at any
 * time.
 *
 * Only the calls that allocate depend on it. Sampled objects lie outside every home range, so all
 * calls that free find them, whether their cache is still sampled or not.
 *
 * Invariants
 *  SAMPLING-P1. When a cache's calls begin to count down to samples, each sheaf in a slot has a
 *      count: it entered the slot after `sampled` was set (percpu/sheaf.h). A drain makes it so;
 *      where the kernel lets it reach only this CPU, other sheaves begin with a wrong count.
 *
 * Locks: that of housekeeping, so that one thread at a time switches, and fork() waits for it;
 * OS_RANK_CACHES and OS_RANK_DRAIN. Callers: src/cache/, src/control/.
 */
#ifndef SHEAF_CACHE_SAMPLING_H
#define SHEAF_CACHE_SAMPLING_H

#include "cache/cache.h"
#include "debug/profile.h"

static inline bool sampling_wanted(const struct kmem_cache *s)
{
	return s->flags & DEBUG_SAMPLE ||
	       (profile_is_on() && !(s->flags & (SLAB_TYPESAFE_BY_RCU | SLAB_SECRET)));
}

/* Switch the heap profile on, with one sample in `mean` bytes (`by`: profile.h), or off. False: no
 * memory. */
bool sampling_begin(uint32_t mean, uint32_t by);
void sampling_end(void);
/* Switch it on if tracers watch its probes, and off if those that did are gone. */
void sampling_see_tracers(void);

#endif
