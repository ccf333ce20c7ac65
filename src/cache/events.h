/* SPDX-License-Identifier: MIT */
/*
 * Every event there is. Statistics in every form, and the file that other processes read, are made from
 * this list. Callers: src/cache/, src/stats/.
 */
#ifndef SHEAF_CACHE_EVENTS_H
#define SHEAF_CACHE_EVENTS_H

#include "rcu/stat.h"

#define STAT_EVENTS(X) SLAB_EVENTS(X) PERCPU_EVENTS(X) RCU_EVENTS(X)

_Static_assert(NR_RCU_WORDS <= OS_WORDS, "counters fit their place");

#endif
