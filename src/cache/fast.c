/* SPDX-License-Identifier: MIT */
/*
 * The fast paths: each is one section; everything else is out of line.
 *
 * A cache's first words point to the functions for this process: rseq, indexed by mm_cid or by
 * cpu_id, each with or without counted events, or the trylock backend. So no call tests which
 * backend runs, and a call through the cache costs no more than one through the procedure linkage
 * table.
 */

#include "cache/account.h"
#include "cache/hardened.h"
#include "cache/publish.h"
#include "debug/guard.h"
#include "os/probe.h"
#include "os/rseq.h"
#include "os/section_c.h"
#include "page/limit.h"
#include "percpu/remote.h"
#include "slab/drain_marks.h"
#include "slab/stat.h"

static OS_COLD void *alloc_slow(struct kmem_cache *s, gfp_t flags)
{
	void *object;

	if (flags & __GFP_ACCOUNT && groups_exist())
		return account_alloc(s, flags, NUMA_NO_NODE);
	object = cache_alloc_slow(s, flags, !(flags & ~SHEAF_GFP_PLAIN));
	cache_leave();
	return object;
}

static OS_COLD void free_slow(struct kmem_cache *s, void *object)
{
	if (sheaf_push_freed(&s->sheaf, (char *)s, object))
		return;
	cache_free_slow(s, object, cache_free_call(s));
	cache_leave();
}

#define DEFINE_ALLOC_PLAIN(suffix, POP)                                                            \
	static OS_FAST void *alloc_plain_##suffix(struct kmem_cache *s)                            \
	{                                                                                          \
		void *object;                                                                      \
                                                                                                   \
		if (os_likely(POP((char *)s, &object)))                                            \
			return object;                                                             \
		return alloc_slow(s, GFP_KERNEL);                                                  \
	}

#define DEFINE_ALLOC(suffix, POP)                                                                  \
	static OS_FAST void *alloc_##suffix(struct kmem_cache *s, gfp_t flags)                     \
	{                                                                                          \
		void *object;                                                                      \
                                                                                                   \
		if (os_likely(!(flags & ~SHEAF_GFP_PLAIN)) && os_likely(POP((char *)s, &object)))  \
			return object;                                                             \
		return alloc_slow(s, flags);                                                       \
	}

#define DEFINE_CALLS(suffix, POP, PUSH)                                                            \
	DEFINE_ALLOC_PLAIN(suffix, POP)                                                            \
	DEFINE_ALLOC(suffix, POP)                                                                  \
                                                                                                   \
	static OS_FAST void free_##suffix(struct kmem_cache *s, void *object)                      \
	{                                                                                          \
		if (!os_likely(PUSH((char *)s, object)))                                           \
			free_slow(s, object);                                                      \
	}

#define CALLS(suffix)	   CACHE_CALLS(alloc_##suffix, alloc_plain_##suffix, free_##suffix)
#define SLOW_CALLS(suffix) CACHE_CALLS(alloc_##suffix, cache_alloc_plain, free_##suffix)

DEFINE_CALLS(trylock, c_pop, c_push)
/* With a countdown to the next sample. */
DEFINE_CALLS(trylock_sampled, c_pop_sampled, c_push)
#ifdef HAVE_RSEQ
RSEQ_FOR_EACH(DEFINE_CALLS)

/* The same with a prefetch of the objects' lines, for caches whose objects flow one way. */
#define DEFINE_AHEAD(suffix)                                                                       \
	DEFINE_ALLOC_PLAIN(suffix##_ahead, rseq_pop_##suffix##_ahead)                              \
	DEFINE_ALLOC(suffix##_ahead, rseq_pop_##suffix##_ahead)

DEFINE_AHEAD(mm_cid)
DEFINE_AHEAD(cpu_id)

static struct sheaf_calls rseq_calls(bool sampled)
{
	struct sheaf_calls calls = sampled ? RSEQ_BY_INDEX(CALLS, _sampled) : RSEQ_BY_ID(CALLS);

	/* The memory sanitizer sees no result that kmem_cache_alloc_bulk() gets by pop_by. */
	if (!os.counting && !(os.tools & TOOL_MSAN))
		calls.pop_by = calls.push_by = os.id_offset;
	return calls;
}
#endif

/*
 * SLAB_NO_SHEAVES: a section would find nothing. One object goes straight from a slab to the caller
 * and back; samples, debug caches and what else is not plain take the slow calls.
 */
static bool is_plain(const struct kmem_cache *s)
{
	return !cache_is_checked(s) && !os_load_relaxed(&s->sheaf.sampled) &&
	       !slab_has_deferred(&s->sheaf.slab);
}

static void *alloc_no_sheaf(struct kmem_cache *s, gfp_t flags)
{
	unsigned int node = os_node();
	void *object;

	if ((flags & ~SHEAF_GFP_PLAIN) || !is_plain(s) || page_is_above_soft() ||
	    slab_take(&s->sheaf.slab, node, SLAB_PREFER_NODE, &object, 1) != 1)
		return alloc_slow(s, flags);
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
	if (is_plain(s) && !guard_range.size) {
		stat_add(&s->sheaf.slab, STAT_free_slowpath, 1);
		slab_give(&s->sheaf.slab, &object, 1, cache_free_call(s));
	} else {
		cache_give(s, &object, 1, cache_free_call(s));
	}
	cache_leave();
}

void *cache_alloc_plain(struct kmem_cache *s)
{
	return SHEAF_CALL(s, alloc)(s, GFP_KERNEL);
}

/* For programs that are built with the thread sanitizer. */
static void *alloc_tsan(struct kmem_cache *s, gfp_t flags)
{
	void *object = alloc_trylock(s, flags);

	tsan_acquire(object);
	return object;
}

static void free_tsan(struct kmem_cache *s, void *object)
{
	cache_tell_freed(s, object);
	free_trylock(s, object);
}

/* slab_strict_numa: allocations that name no node follow the thread's memory policy. */
static void *alloc_strict(struct kmem_cache *s, gfp_t flags)
{
	int node = os_policy_node();

	if (flags & __GFP_ACCOUNT && groups_exist())
		return account_alloc(s, flags, node == OS_NO_NODE ? NUMA_NO_NODE : node);
	return cache_alloc_node(s, flags, node == OS_NO_NODE ? NUMA_NO_NODE : node);
}

bool cache_is_plain(const struct kmem_cache *s)
{
	return os.backend == OS_BACKEND_RSEQ && !(s->flags & (SLAB_NO_SHEAVES | CACHE_HARDENED)) &&
	       !(s->flags & DEBUG_SAMPLE && os.counting) && !cache_follows_policy();
}

struct sheaf_calls cache_base_calls(struct kmem_cache *s)
{
	bool sampled = s->flags & DEBUG_SAMPLE && os.counting;
	struct sheaf_calls calls = tsan_is_on() ? SLOW_CALLS(tsan)
				   : sampled	? CALLS(trylock_sampled)
						: CALLS(trylock);

#ifdef HAVE_RSEQ
	if (os.backend == OS_BACKEND_RSEQ)
		calls = rseq_calls(sampled);
#endif
	if (s->flags & SLAB_NO_SHEAVES)
		calls = SLOW_CALLS(no_sheaf);
	if (cache_is_hardened(s))
		calls = hardened_calls(sampled);
	if (cache_follows_policy()) {
		calls.alloc = alloc_strict;
		calls.alloc_plain = cache_alloc_plain;
		calls.pop_by = 0;
	}
	return calls;
}

void cache_choose_calls(struct kmem_cache *s)
{
	s->calls = account_calls(s, cache_base_calls(s));
	if (cache_is_leaked(s))
		cache_refuse_allocations(s);
#ifdef HAVE_RSEQ
	if (os.backend == OS_BACKEND_RSEQ && !cache_is_hardened(s))
		s->retire_by = (uint8_t)os.id_offset;
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

#ifdef HAVE_RSEQ
/* In pop_by: an allocation makes the call, which prefetches. Unlike with 0, kmem_cache_alloc_bulk()
 * may take one object by the section. */
#define POP_AHEAD 1

static struct sheaf_calls ahead_calls(void)
{
	struct sheaf_calls calls = rseq_calls(false);
	bool by_cpu_id = os.id_offset == RSEQ_CPU_ID;

	calls.alloc = by_cpu_id ? alloc_cpu_id_ahead : alloc_mm_cid_ahead;
	calls.alloc_plain = by_cpu_id ? alloc_plain_cpu_id_ahead : alloc_plain_mm_cid_ahead;
	calls.pop_by = calls.pop_by ? POP_AHEAD : 0;
	return calls;
}

/* Exchange a call only for its counterpart: the cache may have different calls, or may be being
 * destroyed. */
static void exchange_alloc(struct kmem_cache *s, struct sheaf_calls from, struct sheaf_calls to)
{
	os_cmpxchg(&s->calls.alloc, &from.alloc, to.alloc);
	os_cmpxchg(&s->calls.alloc_plain, &from.alloc_plain, to.alloc_plain);
	os_cmpxchg(&s->calls.pop_by, &from.pop_by, to.pop_by);
}

static void choose_alloc(struct kmem_cache *s)
{
	const struct sheaf_calls ordinary = rseq_calls(false), ahead = ahead_calls();
	uint32_t one_way;

	if (os.backend != OS_BACKEND_RSEQ || os.counting)
		return;
	do {
		one_way = os_load_relaxed(&s->sheaf.one_way);
		if (one_way)
			exchange_alloc(s, ordinary, ahead);
		else
			exchange_alloc(s, ahead, ordinary);
		/* Several threads may do this: the fence pairs with the same one in another
		 * thread. */
		os_fence();
	} while (os_load_relaxed(&s->sheaf.one_way) != one_way);
}
#else
static void choose_alloc(struct kmem_cache *s)
{
	(void)s;
}
#endif

OS_COLD void cache_flow_changed(struct kmem_cache *s)
{
	os_exchange(&s->sheaf.flow_changed, 0);
	choose_alloc(s);
	publish_capacity(s);
}

struct sheaf_calls cache_calls_destroyed(void)
{
	return SLOW_CALLS(destroyed);
}

void cache_set_alloc(struct kmem_cache *s, struct sheaf_calls calls)
{
	os_store_release(&s->calls.pop_by, calls.pop_by);
	os_store_release(&s->calls.alloc, calls.alloc);
	os_store_release(&s->calls.alloc_plain, calls.alloc_plain);
}

void cache_refuse_allocations(struct kmem_cache *s)
{
	cache_set_alloc(s, cache_calls_destroyed());
}
