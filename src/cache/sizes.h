/* SPDX-License-Identifier: MIT */
/*
 * What may be changed of a cache in use: the capacity of its sheaves, the limits of its barns, its
 * own limit, and the empty slabs that it keeps. The program changes them by calls (sizes.c), who
 * starts it by SHEAF_OPTIONS (create.c), and its user by `sheaf tune` (control/tune.c). The last
 * change counts, and the cache remembers who made it.
 *
 * Locks: OS_RANK_CACHES, held by the callers of size_set() and size_note(), so that published
 * numbers follow in the same order. Callers: src/cache/, src/control/, src/stats/.
 */
#ifndef SHEAF_CACHE_SIZES_H
#define SHEAF_CACHE_SIZES_H

#include "cache/cache.h"

enum size {
	SIZE_CAPACITY,	/* objects of a new sheaf; 0: the library chooses */
	SIZE_BARN_FULL, /* full sheaves of a node's barn; 0: the library chooses */
	SIZE_LIMIT,	/* bytes of slabs; 0: none */
	SIZE_MIN_PARTIAL,
	SIZE_BARN_EMPTY, /* empty sheaves that a pass leaves in a node's barn; 0: no limit */
	NR_SIZES,
};

/* In two bits each of a word, the first size in the lowest: set_by of struct kmem_cache_stats. */
enum size_setter {
	SIZE_BY_LIBRARY,
	SIZE_BY_PROGRAM,
	SIZE_BY_OPTIONS,
	SIZE_BY_TUNE,
};

struct size_kind {
	char name[15];
	bool of_sheaves; /* of a cache that has some */
	uint64_t most;
};
extern const struct size_kind size_kinds[NR_SIZES];

/* Change it to a value up to the most, of a cache that has it. */
void size_set(struct kmem_cache *s, enum size which, uint64_t value, enum size_setter by);
/* It was changed in another way. */
void size_note(struct kmem_cache *s, enum size which, enum size_setter by);
/* What it is now. */
uint64_t size_now(const struct kmem_cache *s, enum size which);

static inline enum size_setter size_set_by(const struct kmem_cache *s, enum size which)
{
	uint32_t all = os_load_relaxed(&slab_rest(&s->sheaf.slab)->set_by);

	return (enum size_setter)(all >> 2 * which & 3);
}

static inline bool size_exists(const struct kmem_cache *s, enum size which)
{
	return !size_kinds[which].of_sheaves || sheaf_capacity(&s->sheaf);
}

/* Shrink a cache that is above its limit, and report if it still is. Without the lock. */
void size_keep_limit(struct kmem_cache *s, const char *call);

/* The capacity of sheaves for objects with this stride in bytes, before they grow. */
unsigned int size_first_capacity(uint32_t stride);

#endif
