/* SPDX-License-Identifier: MIT */
/*
 * The calls of a cache: the words that lead its fast paths to their sections, and a table for all
 * other cases. fast.c says which word means what.
 *
 * Callers: src/cache/, src/kmalloc/.
 */
#ifndef SHEAF_CACHE_CALLS_H
#define SHEAF_CACHE_CALLS_H

#include "cache/cache.h"
#include "os/rseq.h"

/* Words of a cache below any index of rows. */
#define BY_TABLE   0u
#define BY_SAMPLED 1u
#define BY_AHEAD   2u
#define BY_CHARGED 3u

/* The rest of cache_alloc() and cache_free(), if no section did it: the cache's word says which. */
void *cache_alloc_by_word(struct kmem_cache *s, gfp_t flags);
#ifdef HAVE_RSEQ
void *cache_alloc_ahead(struct kmem_cache *s, gfp_t flags);
#endif
void cache_free_by_word(struct kmem_cache *s, void *object);

/* The sections alone. False: the cache's word leads to none, or the section left. A table led to
 * the cache, and programs wait for each load that depends on it: the words of the section are read
 * elsewhere. */
static OS_ALWAYS_INLINE bool cache_pop(struct kmem_cache *s, void **object)
{
#ifdef HAVE_RSEQ
	uint32_t by = os_load_relaxed(&s->words.pop_by);

	if (os_unlikely(by <= SHEAF_BY_CALL))
		return by == BY_SAMPLED &&
		       rseq_pop_sampled(os.rseq_offset, os.id_offset, (char *)s, object);
	return os_likely(rseq_pop(os.rseq_offset, os.id_offset, (char *)s, object));
#else
	(void)s, (void)object;
	return false;
#endif
}

/* The same for a call that then draws samples itself: it must not count down to one. */
static OS_ALWAYS_INLINE bool cache_pop_uncounted(struct kmem_cache *s, void **object)
{
#ifdef HAVE_RSEQ
	return os_likely(os_load_relaxed(&s->words.pop_by) > SHEAF_BY_CALL) &&
	       os_likely(rseq_pop(os.rseq_offset, os.id_offset, (char *)s, object));
#else
	(void)s, (void)object;
	return false;
#endif
}

static OS_ALWAYS_INLINE bool cache_push(struct kmem_cache *s, void *object)
{
#ifdef HAVE_RSEQ
	uint32_t by = os_load_relaxed(&s->words.push_by);

	return os_likely(by > SHEAF_BY_CALL) &&
	       os_likely(rseq_push(s->words.area, by, (char *)s, object));
#else
	(void)s, (void)object;
	return false;
#endif
}

/* kmem_cache_alloc(), and kmem_cache_free() of a cache that is not NULL. */
static OS_ALWAYS_INLINE void *cache_alloc(struct kmem_cache *s, gfp_t flags)
{
#ifdef HAVE_RSEQ
	uint32_t by = os_load_relaxed(&s->words.pop_by);
	void *object;

	if (os_likely(!(flags & ~SHEAF_GFP_PLAIN))) {
		if (os_unlikely(by <= SHEAF_BY_CALL)) {
			if (by == BY_AHEAD)
				return cache_alloc_ahead(s, flags);
		} else if (os_likely(rseq_pop(s->words.area, by, (char *)s, &object))) {
			return object;
		}
	}
#endif
	return cache_alloc_by_word(s, flags);
}

static OS_ALWAYS_INLINE void cache_free(struct kmem_cache *s, void *object)
{
	if (os_unlikely(!cache_push(s, object)))
		cache_free_by_word(s, object);
}

/* cache_push() for a cache that was found by the object, as cache_pop(). */
static OS_ALWAYS_INLINE bool cache_push_found(struct kmem_cache *s, void *object)
{
#ifdef HAVE_RSEQ
	return os_likely(os_load_relaxed(&s->words.push_by) > SHEAF_BY_CALL) &&
	       os_likely(rseq_push(os.rseq_offset, os.id_offset, (char *)s, object));
#else
	(void)s, (void)object;
	return false;
#endif
}

static OS_ALWAYS_INLINE void cache_free_found(struct kmem_cache *s, void *object)
{
	if (os_unlikely(!cache_push_found(s, object)))
		cache_free_by_word(s, object);
}

/*
 * Let a file that includes os/section_c.h define the calls of a table, alloc_KIND_SUFFIX() and
 * free_KIND_SUFFIX(), around each of these sections; CALLS_FOR() chooses those for this process. A
 * cache whose objects are sampled frees as others do.
 */
#define CACHE_CALLS(name) ((struct cache_calls){alloc_##name, free_##name})
#define BY_LOCK(section)  section(handle, object)
#define BY_INDEX(section) section(s->words.area, os.id_offset, handle, object)
#define CALLS_BY_LOCK(ALLOC, FREE, kind)                                                           \
	ALLOC(kind##_trylock, BY_LOCK(c_pop))                                                      \
	ALLOC(kind##_trylock_sampled, BY_LOCK(c_pop_sampled))                                      \
	FREE(kind##_trylock, BY_LOCK(c_push))
#define CALLS_FOR_LOCK(kind, sampled)                                                              \
	((struct cache_calls){(sampled) ? alloc_##kind##_trylock_sampled : alloc_##kind##_trylock, \
			      free_##kind##_trylock})

#ifdef HAVE_RSEQ
#define CALLS_FOR_EACH(ALLOC, FREE, kind)                                                          \
	CALLS_BY_LOCK(ALLOC, FREE, kind)                                                           \
	ALLOC(kind##_rseq, BY_INDEX(rseq_pop))                                                     \
	ALLOC(kind##_rseq_sampled, BY_INDEX(rseq_pop_sampled))                                     \
	FREE(kind##_rseq, BY_INDEX(rseq_push))                                                     \
	ALLOC(kind##_rseq_counted, BY_INDEX(rseq_pop_counted))                                     \
	ALLOC(kind##_rseq_counted_sampled, BY_INDEX(rseq_pop_sampled_counted))                     \
	FREE(kind##_rseq_counted, BY_INDEX(rseq_push_counted))
#define CALLS_FOR_INDEX(kind, sampled)                                                             \
	((struct cache_calls){(sampled) ? alloc_##kind##_sampled : alloc_##kind, free_##kind})
#define CALLS_FOR(kind, sampled)                                                                   \
	(os.backend != OS_BACKEND_RSEQ ? CALLS_FOR_LOCK(kind, sampled)                             \
	 : os.counting		       ? CALLS_FOR_INDEX(kind##_rseq_counted, sampled)             \
				       : CALLS_FOR_INDEX(kind##_rseq, sampled))
#else
#define CALLS_FOR_EACH CALLS_BY_LOCK
#define CALLS_FOR      CALLS_FOR_LOCK
#endif

#endif
