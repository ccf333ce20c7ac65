/* SPDX-License-Identifier: MIT */
/* Caches that check each object; see hardened.h. */
#include "cache/hardened.h"

#include "cache/account.h"
#include "os/section_c.h"
#include "page/object_marks.h"

slab_flags_t hardened_flags(slab_flags_t flags, bool has_ctor)
{
	const struct os_options *o = &os_options;
	slab_flags_t hardened = 0;

	if (flags & CACHE_DEBUG)
		return 0;
	if (o->check_pop)
		hardened |= CACHE_CHECK_POP;
	if (o->check_free)
		hardened |= CACHE_CHECK_FREE;
	if (o->check_double)
		hardened |= CACHE_MARKED;
	if (tsan_is_on())
		hardened |= CACHE_TSAN;
	/* As in the kernel: constructed objects keep their state, and readers may look at
	 * type-stable ones. */
	if (has_ctor || (flags & SLAB_TYPESAFE_BY_RCU))
		return hardened;
	if (o->init_on_alloc)
		hardened |= CACHE_ZERO_ALLOC;
	if (o->init_on_free)
		hardened |= CACHE_ZERO_FREE;
	/* A pointer must be checked before it is cleared. */
	if (flags & SLAB_SECRET)
		hardened |= CACHE_ZERO_FREE | CACHE_CHECK_FREE;
	return hardened;
}

/* True if this is an object of the cache whose mark says `was`; then it says `is` from now on. */
static inline bool change_mark(struct kmem_cache *s, const void *object, unsigned int was,
			       unsigned int is)
{
	if (page_owner(object) != &s->sheaf.slab || !mark_is(object, was))
		return false;
	mark(object, is);
	return true;
}

static bool is_object(struct kmem_cache *s, const void *object)
{
	struct slab *slab = page_slab(object);

	return slab && os_load_relaxed(&slab->cache) == &s->sheaf.slab &&
	       slab_index(&s->sheaf.slab, slab, object) != SLAB_NO_OBJECT;
}

/* --- to the program --------------------------------------------------------------------------- */

static OS_COLD void report_pop(struct kmem_cache *s, void *object)
{
	os_misuse_later(s->name,
			"kmem_cache_alloc(%s): a sheaf holds %p, which is not a free object of "
			"this cache; it is left out. Something wrote to the library's memory, or "
			"two threads freed one object: look for them with slab_debug",
			s->name, object);
}

/* Without marks, only the object's cache is checked: a full check would cost as much as marks
 * do. */
static inline bool is_takeable(struct kmem_cache *s, const void *object)
{
	if (s->flags & CACHE_MARKED)
		return change_mark(s, object, MARK_FREE, MARK_USED);
	return !(s->flags & CACHE_CHECK_POP) || page_owner(object) == &s->sheaf.slab;
}

static OS_COLD void *take_another(struct kmem_cache *s, void *object, gfp_t flags)
{
	/* A guarded object has no mark, and is in no sheaf. */
	if (guard_is_ours(object))
		return object;
	report_pop(s, object);
	object = cache_alloc_on(s, flags, os_node(), SLAB_PREFER_NODE);
	if (object && (s->flags & CACHE_MARKED))
		mark(object, MARK_USED);
	return object;
}

static inline void *take(struct kmem_cache *s, void *object, gfp_t flags)
{
	if (os_unlikely(!is_takeable(s, object)))
		object = take_another(s, object, flags);
	if (os_unlikely(s->flags & CACHE_ZERO_ALLOC || flags & __GFP_ZERO) && object)
		cache_zero(s, object);
	return object;
}

void *hardened_take(struct kmem_cache *s, void *object, gfp_t flags)
{
	return object ? take(s, object, flags) : NULL;
}

bool hardened_take_try(struct kmem_cache *s, void *object)
{
	bool right = is_takeable(s, object) || guard_is_ours(object);

	if (!right)
		report_pop(s, object);
	else if (s->flags & CACHE_ZERO_ALLOC)
		cache_zero(s, object);
	return right;
}

bool hardened_take_all(struct kmem_cache *s, gfp_t flags, size_t n, void **objects)
{
	for (size_t i = 0; i < n; i++) {
		void *object = take(s, objects[i], flags);

		if (object) {
			objects[i] = object;
			continue;
		}
		objects[i] = NULL;
		while (i > 0)
			hardened_free(s, objects[--i], "kmem_cache_alloc_bulk");
		return false;
	}
	return true;
}

static OS_COLD void *hardened_alloc_slow(struct kmem_cache *s, gfp_t flags)
{
	bool popped = !(flags & ~SHEAF_GFP_PLAIN);
	void *object;

	if (flags & __GFP_ACCOUNT && groups_exist())
		return account_alloc(s, flags, NUMA_NO_NODE);
	flags = cache_check_gfp(s, flags);
	object = hardened_take(s, cache_alloc_slow(s, flags & ~__GFP_ZERO, popped), flags);
	cache_leave();
	return object;
}

/* What the fast path of an allocation does not do: caches without marks, clearing, wrong
 * pointers. */
static OS_NOINLINE void *take_slowly(struct kmem_cache *s, void *object, gfp_t flags)
{
	tsan_acquire(object);
	object = take(s, object, flags);
	cache_leave();
	return object;
}

/* --- from the program ------------------------------------------------------------------------- */

static OS_COLD void report_free(struct kmem_cache *s, void *object, const char *call)
{
	struct slab_cache *cache = &s->sheaf.slab;

	if (!is_object(s, object))
		slab_report_wrong(cache, object, call);
	else if (mark_is(object, MARK_WAITS))
		os_misuse_later(s->name,
				"%s(%s, %p): the object waits for a grace period; ignored. It was "
				"freed with kfree_rcu before: look for two owners",
				call, s->name, object);
	else
		slab_report_double(cache, object, call);
}

static inline bool may_free(struct kmem_cache *s, const void *object)
{
	if (s->flags & CACHE_MARKED)
		return change_mark(s, object, MARK_USED, MARK_FREE);
	return !(s->flags & CACHE_CHECK_FREE) || is_object(s, object);
}

static inline bool free_object(struct kmem_cache *s, void *object, const char *call)
{
	if (os_unlikely(!may_free(s, object))) {
		if (!object || guard_is_ours(object))
			return true;
		report_free(s, object, call);
		return false;
	}
	if (os_unlikely(s->flags & CACHE_ZERO_FREE))
		cache_zero(s, object);
	return true;
}

bool hardened_free(struct kmem_cache *s, void *object, const char *call)
{
	return free_object(s, object, call);
}

bool hardened_retire(struct kmem_cache *s, void *object, const char *call)
{
	bool right = s->flags & CACHE_MARKED ? change_mark(s, object, MARK_USED, MARK_WAITS)
					     : is_object(s, object);

	if (!right)
		report_free(s, object, call);
	return right;
}

bool hardened_is_used(const struct kmem_cache *s, const void *object, bool retired)
{
	return !(s->flags & CACHE_MARKED) || mark_is(object, MARK_USED) ||
	       (retired && mark_is(object, MARK_WAITS));
}

void hardened_free_waited(struct kmem_cache *s, void *object)
{
	/* HARDENED-N3: and guarded ones wait elsewhere. */
	os_assert(!(s->flags & CACHE_MARKED) ||
		  os_peek(mark_at(object)) == mark_of(object, MARK_WAITS));
	if (s->flags & CACHE_MARKED)
		mark(object, MARK_FREE);
	if (s->flags & CACHE_ZERO_FREE)
		cache_zero(s, object);
}

/* What the fast path of a free does not do. */
static OS_NOINLINE bool free_slowly(struct kmem_cache *s, void *object)
{
	bool right = free_object(s, object, cache_free_call(s));

	if (right && tsan_is_on())
		cache_tell_freed(s, object);
	if (!right)
		cache_leave();
	return right;
}

static OS_COLD void hardened_free_slow(struct kmem_cache *s, void *object)
{
	cache_free_slow(s, object, cache_free_call(s));
	cache_leave();
}

/* --- the calls: as in fast.c, with a mark ----------------------------------------------------- */

/* True if a call need only change the mark: it neither clears the object nor annotates it. */
static inline bool only_marked(const struct kmem_cache *s, slab_flags_t zero)
{
	return os_likely((s->flags & (CACHE_MARKED | CACHE_TSAN | zero)) == CACHE_MARKED);
}

#define DEFINE_ALLOC(suffix, pop)                                                                  \
	static OS_FAST void *alloc_##suffix(struct kmem_cache *s, gfp_t flags)                     \
	{                                                                                          \
		char *handle = (char *)s;                                                          \
		void *popped, **object = &popped;                                                  \
                                                                                                   \
		if (os_unlikely(flags & ~SHEAF_GFP_PLAIN) || os_unlikely(!(pop)))                  \
			return hardened_alloc_slow(s, flags);                                      \
		if (only_marked(s, CACHE_ZERO_ALLOC) &&                                            \
		    os_likely(change_mark(s, popped, MARK_FREE, MARK_USED)))                       \
			return popped;                                                             \
		return take_slowly(s, popped, flags);                                              \
	}
#define DEFINE_FREE(suffix, push)                                                                  \
	static OS_FAST void free_##suffix(struct kmem_cache *s, void *object)                      \
	{                                                                                          \
		char *handle = (char *)s;                                                          \
                                                                                                   \
		if (!(only_marked(s, CACHE_ZERO_FREE) &&                                           \
		      os_likely(change_mark(s, object, MARK_USED, MARK_FREE))) &&                  \
		    !free_slowly(s, object))                                                       \
			return;                                                                    \
		if (!os_likely(push))                                                              \
			hardened_free_slow(s, object);                                             \
	}

CALLS_FOR_EACH(DEFINE_ALLOC, DEFINE_FREE, marked)

struct cache_calls hardened_calls(bool sampled)
{
	return CALLS_FOR(marked, sampled);
}
