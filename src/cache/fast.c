/* SPDX-License-Identifier: MIT */
/*
 * The fast paths: each is one section, in the exported function itself; everything else is out of
 * line.
 *
 *   word of the cache      pop_by                        push_by
 *   os.id_offset           the section                   the section
 *   BY_SAMPLED             of kmalloc(), one that        -
 *                          counts down; else `calls`
 *   BY_AHEAD               one with a prefetch           -
 *   BY_CHARGED             account_fast.c                account_fast.c
 *   BY_TABLE               its `calls` (table.c)         the same
 *
 * Words lead to their code by direct branches, since indirect ones are dear on CPUs that restrict
 * them.
 */
#include "cache/account.h"
#include "percpu/remote.h"

OS_COLD void *cache_alloc_unpopped(struct kmem_cache *s, gfp_t flags)
{
	/* The words of sampled caches lead these here, too. */
	bool zeroed = (flags & ~SHEAF_GFP_PLAIN) == __GFP_ZERO && !s->sheaf.slab.ctor &&
		      os_load_relaxed(&s->words.pop_by) == BY_SAMPLED;
	void *object;

	if (zeroed && cache_pop(s, &object)) {
		cache_zero(s, object);
		return object;
	}
	if (flags & __GFP_ACCOUNT && groups_exist())
		return account_alloc(s, flags, NUMA_NO_NODE);
	object = cache_alloc_slow(s, flags, zeroed || !(flags & ~SHEAF_GFP_PLAIN));
	cache_leave();
	return object;
}

OS_COLD void cache_free_unpushed(struct kmem_cache *s, void *object)
{
	if (sheaf_push_freed(&s->sheaf, (char *)s, object))
		return;
	cache_free_slow(s, object, cache_free_call(s));
	cache_leave();
}

/* --- the calls of programs -------------------------------------------------------------------- */

#ifdef HAVE_RSEQ
/* With flags beyond the plain ones, in a cache that has a word. */
static OS_NOINLINE void *alloc_zeroed(struct kmem_cache *s, gfp_t flags)
{
	void *object;

	if (os_unlikely((flags & ~SHEAF_GFP_PLAIN) != __GFP_ZERO) ||
	    os_unlikely(s->sheaf.slab.ctor) ||
	    os_unlikely(!rseq_pop(s->words.area, os.id_offset, (char *)s, &object)))
		return cache_alloc_unpopped(s, flags);
	cache_zero(s, object);
	return object;
}

/* The cache's objects flow one way: fetch the next one's line while this one is used. */
OS_FAST OS_NOINLINE void *cache_alloc_ahead(struct kmem_cache *s, gfp_t flags)
{
	void *object;

	if (os_likely(rseq_pop_ahead(s->words.area, os.id_offset, (char *)s, &object)))
		return object;
	return cache_alloc_unpopped(s, flags);
}
#endif

OS_FAST OS_NOINLINE void *cache_alloc_by_word(struct kmem_cache *s, gfp_t flags)
{
	uint32_t by = os_load_relaxed(&s->words.pop_by);

	if (by <= BY_SAMPLED)
		return os_load_relaxed(&s->calls.alloc)(s, flags);
#ifdef HAVE_RSEQ
	if (by == BY_CHARGED)
		return account_alloc_fast(s, flags);
	if (flags & ~SHEAF_GFP_PLAIN)
		return alloc_zeroed(s, flags);
#endif
	return cache_alloc_unpopped(s, flags);
}

OS_FAST OS_NOINLINE void cache_free_by_word(struct kmem_cache *s, void *object)
{
	uint32_t by = os_load_relaxed(&s->words.push_by);

	if (by == BY_TABLE)
		os_load_relaxed (&s->calls.free)(s, object);
#ifdef HAVE_RSEQ
	else if (by == BY_CHARGED)
		account_free_fast(s, object);
#endif
	else
		cache_free_unpushed(s, object);
}

SHEAF_PUBLIC OS_FAST void *__kmem_cache_alloc(struct kmem_cache *s, gfp_t flags)
{
	return cache_alloc(s, flags);
}

SHEAF_PUBLIC OS_FAST void *kmem_cache_zalloc(struct kmem_cache *s, gfp_t flags)
{
	if (os_unlikely(!s))
		return (void *)cache_report_null("kmem_cache_zalloc");
	return cache_alloc_by_word(s, flags | __GFP_ZERO);
}

static OS_COLD void free_to_null(void *object)
{
	if (object)
		os_misuse(NULL,
			  "kmem_cache_free(NULL, %p): the cache is NULL; the object is leaked. "
			  "Pass the cache that it came from, or use kfree()",
			  object);
}

SHEAF_PUBLIC OS_FAST void __kmem_cache_free(struct kmem_cache *s, void *object)
{
	if (os_unlikely(!s))
		free_to_null(object);
	else
		cache_free(s, object);
}
