/* SPDX-License-Identifier: MIT */
/*
 * Owners: the number of the group that each object of a slab is charged to, in an array beside the
 * slab, which is made when the first object needs it.
 *
 *   descriptor: | state: OWNED | cache | ... |     | number | 0 | number | ... |  by object
 *   word of the slab's owners -----------------------^
 *
 * The word is the one that a slab has for bits and does not need: in its descriptor if it has more
 * than 64 objects, else in the page layer's table of words, behind a link (late.c).
 *
 * Invariants
 *  O1. The word is valid if OWNED is set in the slab's state, which stays set until the slab's pages
 *      go back. A slab goes back without owners: all its objects are free.
 *  O2. A number changes only when its object is handed to the program or comes back: by the owner of
 *      the object. 0: nobody is charged.
 *
 * Locks: OS_RANK_OWNERS, to make an array. The others take none.
 * Callers: src/slab/pages.c, src/cache/, src/stats/.
 */
#ifndef SHEAF_SLAB_OWNER_H
#define SHEAF_SLAB_OWNER_H

#include "os/atomic.h"
#include "slab/slab.h"

/* The slab of an object of this cache; NULL: it is in none. */
static inline struct slab *owner_slab(const struct slab_cache *cache, const void *object,
				      uint64_t *state)
{
	size_t offset = (uintptr_t)object - (uintptr_t)pages.base;
	struct slab *slab;

	if (__builtin_expect(offset >= os_load_relaxed(&pages.readable), 0))
		return NULL;
	slab = pages.slabs + (offset >> OS_PAGE_SHIFT);
	*state = os_load_acquire(&slab->state);
	if (*state & SLAB_TAIL) {
		slab -= (uint16_t)*state;
		*state = os_load_acquire(&slab->state);
	}
	return os_load_relaxed(&slab->cache) == cache ? slab : NULL;
}

static inline uint64_t *owner_word(const struct slab_cache *cache, struct slab *slab)
{
	return cache->oo.objects <= 64 ? page_words(slab) + 2 : &slab->bits;
}

/* The slab's array. OWNED is set. */
static inline uint32_t *owner_array(const struct slab_cache *cache, struct slab *slab)
{
	return (uint32_t *)(uintptr_t)os_load_relaxed(owner_word(cache, slab));
}

/* The place of an object's number; NULL: its slab has no array, or it is not an object. */
static inline uint32_t *owner_at(const struct slab_cache *cache, const void *object)
{
	uint64_t state;
	struct slab *slab = owner_slab(cache, object, &state);
	size_t offset, index;

	if (!slab || !(state & SLAB_OWNED))
		return NULL;
	offset = (size_t)((const char *)object - slab_object(cache, slab, 0));
	index = offset * cache->reciprocal >> 32;
	if (__builtin_expect(index * cache->size != offset ||
				     index >= slab_order_of(cache, state).objects,
			     0))
		return NULL;
	return owner_array(cache, slab) + index;
}

/* Take the number of an object that comes back. */
static inline uint32_t owner_take(const struct slab_cache *cache, const void *object)
{
	uint32_t *at = owner_at(cache, object), number = at ? os_load_relaxed(at) : 0;

	if (number)
		os_store_relaxed(at, 0);
	return number;
}

/* Give the slab of this object an array, if it has none; with `wait` false, only if that takes no
 * wait. False: there is no memory, or it is not an object. */
bool owner_make(const struct slab_cache *cache, const void *object, bool wait);
/* Free the array of a slab whose objects are all free. */
void owner_end(const struct slab_cache *cache, struct slab *slab);

/* Call look(data, cache, object, number) for each object of all caches that has a number. Objects
 * that are allocated or freed meanwhile may be left out. */
typedef void owner_look(void *data, struct slab_cache *cache, const void *object, uint32_t number);
void owner_for_each(owner_look *look, void *data);

/* Around fork(). */
void owner_lock(void);
void owner_unlock(void);

#endif
