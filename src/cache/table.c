/* SPDX-License-Identifier: MIT */
/*
 * What calls of a cache do: its words and its table, chosen by its flags, by the options, and by
 * what it charges. The table is for all that is not a section of its own in fast.c and
 * account_fast.c: the trylock backend, counted events, samples, checks, the thread sanitizer,
 * caches without sheaves, and destroyed ones.
 */

#include "cache/account.h"
#include "cache/hardened.h"
#include "cache/publish.h"
#include "os/probe.h"
#include "os/section_c.h"
#include "page/limit.h"
#include "slab/drain_marks.h"
#include "slab/stat.h"

/* pop, push: sections of `handle` and `object`. */
#define DEFINE_ALLOC(suffix, pop)                                                                  \
	static OS_FAST void *alloc_##suffix(struct kmem_cache *s, gfp_t flags)                     \
	{                                                                                          \
		char *handle = (char *)s;                                                          \
		void *popped, **object = &popped;                                                  \
                                                                                                   \
		if (os_likely(!(flags & ~SHEAF_GFP_PLAIN)) && os_likely(pop))                      \
			return popped;                                                             \
		return cache_alloc_unpopped(s, flags);                                             \
	}
#define DEFINE_FREE(suffix, push)                                                                  \
	static OS_FAST void free_##suffix(struct kmem_cache *s, void *object)                      \
	{                                                                                          \
		char *handle = (char *)s;                                                          \
                                                                                                   \
		if (!os_likely(push))                                                              \
			cache_free_unpushed(s, object);                                            \
	}

CALLS_FOR_EACH(DEFINE_ALLOC, DEFINE_FREE, plain)

/*
 * SLAB_NO_SHEAVES: a section would find nothing. One object goes straight from a slab to the caller
 * and back; samples, debug caches and what else is not plain take the slow calls.
 */
static bool is_plain(const struct kmem_cache *s)
{
	return !cache_is_checked(s) && !cache_is_sampled(s) && !slab_has_deferred(&s->sheaf.slab);
}

static void *alloc_no_sheaf(struct kmem_cache *s, gfp_t flags)
{
	unsigned int node = os_node();
	void *object;

	if ((flags & ~SHEAF_GFP_PLAIN) || !is_plain(s) || page_is_above_soft() ||
	    slab_take(&s->sheaf.slab, node, SLAB_PREFER_NODE, &object, 1) != 1)
		return cache_alloc_unpopped(s, flags);
	probe(alloc_slow, s->name, s->sheaf.slab.object_size, node);
	stat_add(&s->sheaf.slab, STAT_alloc_slowpath, 1);
	tsan_acquire(object);
	cache_leave();
	return object;
}

static void free_no_sheaf(struct kmem_cache *s, void *object)
{
	if (!object)
		return;
	if (tsan_is_on())
		cache_tell_freed(s, object);
	if (is_plain(s) && !os_load_relaxed(&guard_range.size)) {
		stat_add(&s->sheaf.slab, STAT_free_slowpath, 1);
		slab_give(&s->sheaf.slab, &object, 1, cache_free_call(s));
	} else {
		cache_give(s, &object, 1, cache_free_call(s));
	}
	cache_leave();
}

/* For programs that are built with the thread sanitizer. */
static void *alloc_tsan(struct kmem_cache *s, gfp_t flags)
{
	void *object = cache_is_sampled(s) ? alloc_plain_trylock_sampled(s, flags)
					   : alloc_plain_trylock(s, flags);

	tsan_acquire(object);
	return object;
}

static void free_tsan(struct kmem_cache *s, void *object)
{
	cache_tell_freed(s, object);
	free_plain_trylock(s, object);
}

_Static_assert(OS_NO_NODE == NUMA_NO_NODE, "both mean any node");

/* slab_strict_numa: allocations that name no node follow the thread's memory policy. */
static void *alloc_strict(struct kmem_cache *s, gfp_t flags)
{
	int node = os_policy_node();

	if (flags & __GFP_ACCOUNT && groups_exist())
		return account_alloc(s, flags, node);
	return cache_alloc_node(s, flags, node);
}

bool cache_frees_plainly(const struct kmem_cache *s)
{
	return os.backend == OS_BACKEND_RSEQ && !(s->flags & (SLAB_NO_SHEAVES | CACHE_HARDENED)) &&
	       !cache_follows_policy();
}

struct cache_calls cache_calls_if(struct kmem_cache *s, bool sampled)
{
	struct cache_calls calls = CALLS_FOR(plain, sampled);

	if (tsan_is_on())
		calls = CACHE_CALLS(tsan);
	if (s->flags & SLAB_NO_SHEAVES)
		calls = CACHE_CALLS(no_sheaf);
	if (cache_is_hardened(s))
		calls = hardened_calls(sampled);
	if (cache_follows_policy())
		calls.alloc = alloc_strict;
	return calls;
}

/*
 * The word of a call that is one section, and of one that charges. The memory sanitizer does not
 * see what a section in place returns; and sections in place know one layout of slots.
 */
static uint32_t row_word(bool plain, bool charges, bool sampled)
{
/* Not in the simulator, whose sections the table has. */
#if defined(HAVE_RSEQ) && SHEAF_SLOT_WORDS == 192
	if (plain && !os.counting && !(os.tools & TOOL_MSAN) && !(charges && sampled))
		return charges ? BY_CHARGED : sampled ? BY_SAMPLED : os.id_offset;
#endif
	(void)plain, (void)charges, (void)sampled;
	return BY_TABLE;
}

/* Exchange the word only for its counterpart: the cache may charge, or be being destroyed. */
static void choose_pop(struct kmem_cache *s)
{
	uint32_t one_way, word;

	do {
		one_way = os_load_relaxed(&s->sheaf.one_way);
		word = one_way ? os.id_offset : BY_AHEAD;
		if (word != BY_TABLE && os_load_relaxed(&s->words.pop_by) == word)
			os_cmpxchg(&s->words.pop_by, &word, one_way ? BY_AHEAD : os.id_offset);
		/* Several threads may do this: the fence pairs with the same one in another
		 * thread. */
		os_fence();
	} while (os_load_relaxed(&s->sheaf.one_way) != one_way);
}

static void choose_words(struct kmem_cache *s, uint32_t accounted)
{
	bool plain = cache_frees_plainly(s);

	os_store_release(&s->words.push_by, row_word(plain, accounted, false));
	os_store_release(&s->words.pop_by,
			 row_word(plain, accounted == ACCOUNT_ALL, cache_is_sampled(s)));
	choose_pop(s);
}

void cache_choose_again(struct kmem_cache *s)
{
	uint32_t accounted;
	bool sampled;

	do {
		accounted = os_load_relaxed(&s->accounted);
		sampled = cache_is_sampled(s);
		os_store_release(&s->calls.alloc, account_calls(s, cache_base_calls(s)).alloc);
		choose_words(s, accounted);
		/* Pairs with the fence of another thread after its change: whoever stores last has
		 * seen both. */
		os_fence();
	} while (os_load_relaxed(&s->accounted) != accounted || cache_is_sampled(s) != sampled);
	if (cache_is_leaked(s))
		cache_refuse_allocations(s);
}

void cache_choose_calls(struct kmem_cache *s)
{
	s->calls.free = account_calls(s, cache_base_calls(s)).free;
	s->words.area = os.rseq_offset;
	cache_choose_again(s);
#ifdef HAVE_RSEQ
	s->retires_at_once = os.backend == OS_BACKEND_RSEQ && !cache_is_hardened(s);
#endif
}

static void *alloc_destroyed(struct kmem_cache *s, gfp_t flags)
{
	(void)flags;
	os_misuse(NULL,
		  "kmem_cache_alloc(%p): this cache was destroyed; returning NULL. Destroy it "
		  "after its last use",
		  (void *)s);
	return NULL;
}

static void free_destroyed(struct kmem_cache *s, void *object)
{
	os_misuse(NULL,
		  "kmem_cache_free(%p, %p): this cache was destroyed; the pointer is ignored. "
		  "Destroy the cache after its last use",
		  (void *)s, object);
}

OS_COLD void cache_flow_changed(struct kmem_cache *s)
{
	os_exchange(&s->sheaf.flow_changed, 0);
	choose_pop(s);
	publish_capacity(s);
}

void cache_refuse_calls(struct kmem_cache *s)
{
	os_store_release(&s->words.push_by, BY_TABLE);
	os_store_release(&s->calls.free, free_destroyed);
	cache_refuse_allocations(s);
}

void cache_refuse_allocations(struct kmem_cache *s)
{
	os_store_release(&s->words.pop_by, BY_TABLE);
	os_store_release(&s->calls.alloc, alloc_destroyed);
}
