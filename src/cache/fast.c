/* SPDX-License-Identifier: MIT */
/*
 * The fast paths: one section each, everything else out of line.
 *
 * A cache's first words point at the pair for this process: rseq indexed by mm_cid or by cpu_id, both
 * with events counted or not, or the trylock backend. So no call tests which one runs, and a call
 * through the cache costs no more than one through the procedure linkage table.
 */
#include <string.h>

#include "cache/cache.h"
#include "os/machine.h"
#include "os/report.h"
#include "os/rseq.h"
#include "os/section_c.h"

#define COLD __attribute__((cold, noinline))

static COLD void *alloc_slow_plain(struct kmem_cache *s)
{
	return cache_alloc_slow(s, GFP_KERNEL);
}

static COLD void *alloc_slow(struct kmem_cache *s, gfp_t flags)
{
	return cache_alloc_slow(s, flags);
}

static COLD void free_slow(struct kmem_cache *s, void *object)
{
	cache_free_slow(s, object, "kmem_cache_free");
}

#define DEFINE_CALLS(suffix, POP, PUSH)                                                            \
	static void *alloc_plain_##suffix(struct kmem_cache *s)                                    \
	{                                                                                          \
		void *object;                                                                      \
                                                                                                   \
		if (__builtin_expect(POP((char *)s, &object), 1))                                  \
			return object;                                                             \
		return alloc_slow_plain(s);                                                        \
	}                                                                                          \
                                                                                                   \
	static void *alloc_##suffix(struct kmem_cache *s, gfp_t flags)                             \
	{                                                                                          \
		void *object;                                                                      \
                                                                                                   \
		if (__builtin_expect(!(flags & ~SHEAF_GFP_PLAIN), 1) &&                            \
		    __builtin_expect(POP((char *)s, &object), 1))                                  \
			return object;                                                             \
		return alloc_slow(s, flags);                                                       \
	}                                                                                          \
                                                                                                   \
	static void free_##suffix(struct kmem_cache *s, void *object)                              \
	{                                                                                          \
		if (!__builtin_expect(PUSH((char *)s, object), 1))                                 \
			free_slow(s, object);                                                      \
	}

DEFINE_CALLS(trylock, c_pop, c_push)
#ifdef HAVE_RSEQ
DEFINE_CALLS(mm_cid, rseq_pop_mm_cid, rseq_push_mm_cid)
DEFINE_CALLS(cpu_id, rseq_pop_cpu_id, rseq_push_cpu_id)
DEFINE_CALLS(mm_cid_counted, rseq_pop_mm_cid_counted, rseq_push_mm_cid_counted)
DEFINE_CALLS(cpu_id_counted, rseq_pop_cpu_id_counted, rseq_push_cpu_id_counted)

#define CALLS(suffix) ((struct sheaf_calls){alloc_##suffix, alloc_plain_##suffix, free_##suffix})

static struct sheaf_calls rseq_calls(void)
{
	if (os.id_offset == RSEQ_CPU_ID)
		return os.counting ? CALLS(cpu_id_counted) : CALLS(cpu_id);
	return os.counting ? CALLS(mm_cid_counted) : CALLS(mm_cid);
}
#endif

/* slab_strict_numa: what names no node follows the thread's memory policy. */
static void *alloc_strict(struct kmem_cache *s, gfp_t flags)
{
	int node = os_policy_node();

	if (node == OS_NO_NODE)
		return cache_alloc_slow(s, flags);
	return kmem_cache_alloc_node(s, flags, node);
}

static void *alloc_plain_strict(struct kmem_cache *s)
{
	return alloc_strict(s, GFP_KERNEL);
}

struct sheaf_calls cache_calls(bool strict_numa)
{
	struct sheaf_calls calls = {alloc_trylock, alloc_plain_trylock, free_trylock};

#ifdef HAVE_RSEQ
	if (os.backend == OS_BACKEND_RSEQ)
		calls = rseq_calls();
#endif
	if (strict_numa) {
		calls.alloc = alloc_strict;
		calls.alloc_plain = alloc_plain_strict;
	}
	return calls;
}

static void *alloc_destroyed(struct kmem_cache *s, gfp_t flags)
{
	(void)flags;
	os_report("kmem_cache_alloc(%p): this cache was destroyed; NULL returned. Destroy it after "
		  "its last use",
		  (void *)s);
	return NULL;
}

static void *alloc_plain_destroyed(struct kmem_cache *s)
{
	return alloc_destroyed(s, GFP_KERNEL);
}

static void free_destroyed(struct kmem_cache *s, void *object)
{
	os_report("kmem_cache_free(%p, %p): this cache was destroyed; the pointer is left alone. "
		  "Destroy it after its last use",
		  (void *)s, object);
}

struct sheaf_calls cache_calls_destroyed(void)
{
	return (struct sheaf_calls){alloc_destroyed, alloc_plain_destroyed, free_destroyed};
}
