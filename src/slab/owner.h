/* SPDX-License-Identifier: MIT */
/*
 * Owners: the number of the group that each object of a slab is charged to, in an array beside the
 * slab, which is made when the first object needs it.
 *
 *   page's descriptor: | state: OWNED | cache | ... |   | number | 0 | number | ... |  of this page
 *   word of the page's owners ----------------------------^
 *
 * A page's part of the array has a number for each 2^k bytes, which are at most an object's
 * size: so a free finds the number of an object by its address, without a division, and without
 * the first page of its slab. The word of a page is the one that it has for bits and does not
 * need: in its descriptor if slabs have more than 64 objects, else in the page layer's table of
 * words, behind a link (rcu_free_slab.c).
 *
 * Invariants
 *  OWNER-O1. The word is valid if OWNED is set in the state of the page's descriptor, which stays
 *      set until the slab's pages are returned. A slab is returned without owners: all its objects
 *      are free.
 *  OWNER-O2. A number changes only when its object is handed to the program or freed: by the
 *      owner of the object. A charged object has a positive number. 0: the charge was returned.
 *      OWNER_NOBODY: the object was not charged when it was handed out, or there was no array.
 *
 * Locks: OS_RANK_OWNERS, to make an array, to end it, and to read it. The others take none.
 * Callers: src/slab/pages.c, src/cache/, src/stats/.
 */
#ifndef SHEAF_SLAB_OWNER_H
#define SHEAF_SLAB_OWNER_H

#include "os/atomic.h"
#include "slab/slab.h"

#define OWNER_NOBODY UINT32_MAX

/* One number for this many bytes, as a power of two. */
static inline unsigned int owner_shift(const struct slab_cache *cache)
{
	unsigned int shift = 31u - (unsigned int)__builtin_clz(cache->size);

	return shift < OS_PAGE_SHIFT ? shift : OS_PAGE_SHIFT;
}

/* Is the word of a page in the table of words? */
static inline bool owner_in_words(const struct slab_cache *cache)
{
	return cache->oo.objects <= 64;
}

#define OWNER_WORD 2 /* behind a link */

/* The word of a page, which this descriptor is of. */
static inline uint64_t *owner_word(const struct slab_cache *cache, struct slab *page)
{
	return owner_in_words(cache) ? page_words(page) + OWNER_WORD : &page->bits;
}

/* The place of an object's number; NULL: its slab has no array, or is not of this cache. */
static OS_ALWAYS_INLINE uint32_t *owner_at(const struct slab_cache *cache, const void *object)
{
	size_t offset = (uintptr_t)object - (uintptr_t)pages.base;
	struct slab *page = pages.slabs + (offset >> OS_PAGE_SHIFT);
	uint32_t *numbers;

	if (os_unlikely(offset >= os_load_relaxed(&pages.readable)) ||
	    os_unlikely(os_load_relaxed(&page->cache) != cache) ||
	    !(os_load_acquire(&page->state) & SLAB_OWNED))
		return NULL;
	numbers = (uint32_t *)(uintptr_t)os_load_relaxed(owner_word(cache, page));
	return &numbers[(offset & (OS_PAGE - 1)) >> owner_shift(cache)];
}

/* The number at this place; 0 if nobody is charged, and for NULL. */
static OS_ALWAYS_INLINE uint32_t owner_number(const uint32_t *at)
{
	uint32_t number = at ? os_load_relaxed(at) : 0;

	return (int32_t)number > 0 ? number : 0;
}

/* Take the number of an object that is freed. */
static OS_ALWAYS_INLINE uint32_t owner_take(const struct slab_cache *cache, const void *object)
{
	uint32_t *at = owner_at(cache, object), number = owner_number(at);

	if (number)
		os_store_relaxed(at, 0);
	return number;
}

/* Give the slab of this object an array, if it has none; with `wait` false, only if that takes no
 * wait. False: there is no memory, or it is not an object. */
bool owner_make(const struct slab_cache *cache, const void *object, bool wait);
/* Free the array of a slab whose objects are all free. */
void owner_end(const struct slab_cache *cache, struct slab *slab);

/* Call look(data, cache, number) for each object of all caches that has a number. Objects that are
 * allocated or freed meanwhile may be left out. look() runs with OS_RANK_OWNERS held. */
typedef void owner_look(void *data, struct slab_cache *cache, uint32_t number);
void owner_for_each(owner_look *look, void *data);

/* For fork(). */
extern struct os_lock owners_lock;

#endif
