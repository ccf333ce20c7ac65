/* SPDX-License-Identifier: MIT */
/*
 * The counts of destroyed caches, so that totals at exit include them.
 *
 * Caches with the same name and layout share an entry. After PAST_ENTRIES names, further ones share
 * the last entry, so that a program with ever new names does not fill its memory.
 *
 * Invariants
 *  PAST-E1. Nothing is stored unless events are counted. A forked child begins without entries.
 *  PAST-E2. Entries are never freed, and new ones come first: the list is read without the lock.
 *      Its numbers may change meanwhile, so they are stored and loaded atomically.
 *
 * Locks: OS_RANK_CACHES, held by the callers of past_add(). Callers: src/cache/, src/stats/.
 */
#ifndef SHEAF_CACHE_PAST_H
#define SHEAF_CACHE_PAST_H

#include "cache/cache.h"
#include "os/counters.h"

#define PAST_ENTRIES 256u
#define PAST_OTHERS  "(other names)"

struct past {
	struct past *next;
	uint64_t times; /* caches that were destroyed */
	uint32_t object_size, slab_size, objs_per_slab, sheaf_capacity; /* of the last one */
	uint64_t words[OS_WORDS];
	char name[];
};

/* This cache will be freed. It is drained, and still has its name and its counters. */
void past_add(struct kmem_cache *s);
/* The entry after this one, or the first; NULL at the end. */
const struct past *past_next(const struct past *past);
/* In a forked child, with one thread. */
void past_forget(void);

#endif
