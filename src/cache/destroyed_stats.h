/* SPDX-License-Identifier: MIT */
/*
 * The counts of destroyed caches, so that totals at exit include them.
 *
 * Caches with the same name and layout share an entry. After DESTROYED_ENTRIES names, further ones
 * share the last entry, so that a program that keeps inventing names does not fill its memory.
 *
 * Invariants
 *  DESTROYED-E1. Nothing is stored unless events are counted. A forked child starts with no
 *      entries.
 *  DESTROYED-E2. Entries are never freed, and new ones are added at the front, so the list is read
 *      without the lock. Counts may change during a read, so they are stored and loaded atomically.
 *
 * Locks: OS_RANK_CACHES, held by the callers of destroyed_stats_add().
 * Callers: src/cache/, src/stats/.
 */
#ifndef SHEAF_CACHE_DESTROYED_STATS_H
#define SHEAF_CACHE_DESTROYED_STATS_H

#include "cache/cache.h"
#include "os/counters.h"

#define DESTROYED_ENTRIES 256u
#define DESTROYED_OTHERS  "(other names)"

struct destroyed_stats {
	struct destroyed_stats *next;
	uint64_t times; /* caches that were destroyed */
	uint32_t object_size, slab_size, objs_per_slab, sheaf_capacity; /* of the last one */
	uint64_t words[OS_WORDS];
	char name[];
};

/* The sum of each word of a cache over all CPUs. False: nothing was ever counted. */
bool cache_read_counts(struct kmem_cache *s, uint64_t words[OS_WORDS]);
/* Add the counts of a cache that is about to be freed: drained, but with its name and counters. */
void destroyed_stats_add(struct kmem_cache *s);
/* The entry after this one, or the first; NULL at the end. */
const struct destroyed_stats *destroyed_stats_next(const struct destroyed_stats *entry);
/* In a forked child, with one thread. */
void destroyed_stats_forget(void);

#endif
