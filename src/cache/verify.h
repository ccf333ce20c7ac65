/* SPDX-License-Identifier: MIT */
/*
 * Examines all objects of a cache: free in their slabs, in sheaves, or in use.
 *
 *     verify.c     kmem_cache_verify(), and what both share
 *     in_use.c     objects in use: whether they are charged; those of a cache that is destroyed
 *
 * Each slab is examined with one bit for each object. The caller keeps the cache from changing, or
 * holds OS_RANK_DRAIN, so that no object moves meanwhile: other threads drain caches that they do
 * not use, in housekeeping or because memory is short.
 *
 * Callers: the files above.
 */
#ifndef SHEAF_CACHE_VERIFY_H
#define SHEAF_CACHE_VERIFY_H

#include "cache/cache.h"

/* The pointers in the cache's sheaves, sorted by address. */
struct pointers {
	void **at;
	size_t n, room;
};

struct check {
	struct kmem_cache *s;
	const char *call;
	struct pointers sheaves;
	size_t matched; /* pointers of sheaves found in slabs */
	int faults;
	uint64_t bits[(SLAB_MAX_OBJECTS + 63) / 64]; /* of a slab's objects: not in use */
};

/* --- verify.c --------------------------------------------------------------------------------- */

void check_fault(struct check *check, const void *object, const char *what);
/* Mark the free objects of the slab in check->bits, and return their number. */
unsigned int check_mark_free(struct check *check, struct slab *slab, uint64_t state);
/* Then those of the slab's objects that are in sheaves. */
unsigned int check_mark_sheaves(struct check *check, struct slab *slab, uint64_t state);
/* Call each(check, slab) for every slab of the cache. */
void check_each_slab(struct check *check, void (*each)(struct check *check, struct slab *slab));
/* As check_each_slab(), with the pointers of sheaves. False: there is no memory. */
bool verify_check_all(struct check *check, void (*each)(struct check *check, struct slab *slab));
/* Call it while the provider's callbacks free nothing. Returns the faults that it found. */
int check_held(struct kmem_cache *s, int (*check_it)(struct kmem_cache *s));

/* --- in_use.c --------------------------------------------------------------------------------- */

/* Put the objects that src/debug/ took out of use into their slabs, when a drained cache ends. */
void cache_give_leaked(struct kmem_cache *s);
/* Count the live objects of a drained cache, and list up to `room` of them. */
size_t cache_live_objects(struct kmem_cache *s, void **objects, size_t room);

/* --- validate.c ------------------------------------------------------------------------------- */

/* Check a pinned cache while it is in use; returns the number of faults, which are reported. */
int cache_validate(struct kmem_cache *s);

#endif
