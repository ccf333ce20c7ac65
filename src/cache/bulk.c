/* SPDX-License-Identifier: MIT */
/* Bulk calls: arrays of objects, from sheaves first, then from slabs. */
#include <limits.h>

#include "cache/account.h"
#include "cache/block.h"
#include "cache/hardened.h"
#include "cache/paths.h"
#include "cache/reclaim.h"
#include "os/rseq.h"
#include "percpu/percpu.h"
#include "percpu/sheaf.h"
#include "slab/stat.h"

#define BATCH_MAX (1u << 16) /* read before they are freed: half a second-level cache */

/* Returns true if not all went into main: reports may then be pending. */
static bool free_to(struct kmem_cache *s, size_t n, void **p);
/* free_to() for the objects that may be freed. */
static void free_watched(struct kmem_cache *s, size_t n, void **p, bool waited, const char *call);

/* Returns how many it allocated. */
static unsigned int alloc_from_slabs(struct kmem_cache *s, gfp_t flags, unsigned int n, void **p)
{
	unsigned int done = 0;

	if (!cache_is_checked(s))
		done = slab_take(&s->sheaf.slab, os_node(), SLAB_PREFER_NODE, p, n);
	stat_add(&s->sheaf.slab, STAT_alloc_slowpath, done);
	for (; done < n; done++) {
		p[done] = cache_alloc_on(s, flags & ~__GFP_ZERO, os_node(), SLAB_PREFER_NODE);
		if (!p[done])
			break;
	}
	return done;
}

bool cache_alloc_all(struct kmem_cache *s, gfp_t flags, unsigned int n, void **p)
{
	unsigned int done, had, slabs;

	if (cache_is_unusable(s, "kmem_cache_alloc_bulk"))
		return false;
	done = had = sheaf_alloc_bulk(&s->sheaf, p, n);
	cache_see_flow(s);
	slabs = done < n ? alloc_from_slabs(s, flags, n - done, p + done) : 0;
	done += slabs;
	/* No memory. What the first search only saw in other CPUs' shards may be taken now. */
	if (done < n)
		done += sheaf_alloc_bulk(&s->sheaf, p + done, n - done);
	if (done < n) {
		/* Before slabs are returned, which makes room below the limit. */
		cache_count_failure(s);
		cache_give(s, p + had, slabs, "kmem_cache_alloc_bulk");
		free_to(s, had, p);
		free_to(s, done - had - slabs, p + had + slabs);
	}
	cache_leave();
	return done == n;
}

static bool is_too_many(const struct kmem_cache *s, size_t n)
{
	if (n <= INT_MAX)
		return false;
	os_misuse(s->name,
		  "kmem_cache_alloc_bulk(%s, %zu objects): at most %d in one call; none allocated",
		  s->name, n, INT_MAX);
	return true;
}

/* The program gets these objects. False: it gets none of them after all. */
static OS_COLD bool watch_taken(struct kmem_cache *s, gfp_t flags, size_t n, void **p)
{
	tools_wrote(p, n * sizeof(*p));
	cache_sample_among(s, n, p);
	/* First what may put another object in the place of a wrong one. */
	if (!cache_watch_taken(s, flags & ~__GFP_ZERO, n, p)) {
		cache_free_all(s, n, p);
		return false;
	}
	if (account_taken(s, flags, n, p))
		return true;
	free_watched(s, n, p, false, "kmem_cache_alloc_bulk");
	cache_leave();
	return false;
}

/* kmem_cache_alloc_bulk() when it has `done` objects and main has no more, or the call asks for
 * more than the fast path does. */
static OS_NOINLINE int alloc_bulk_slow(struct kmem_cache *s, gfp_t flags, size_t n, void **p,
				       unsigned int done)
{
	if (flags & ~SHEAF_GFP_PLAIN)
		flags = cache_check_gfp(s, flags);
	if (n == 0 || is_too_many(s, n))
		return 0;
	reclaim_if_above_soft(flags);
	if (done < n && !cache_alloc_all(s, flags, (unsigned int)n - done, p + done)) {
		if (free_to(s, done, p))
			cache_leave();
		return 0;
	}
	if (os_watched() && !watch_taken(s, flags, n, p))
		return 0;
	if (flags & __GFP_ZERO)
		for (size_t i = 0; i < n; i++)
			cache_zero(s, p[i]);
	return (int)n;
}

/* slab_strict_numa: the thread's policy may name another node for each object. */
static OS_COLD int alloc_bulk_strict(struct kmem_cache *s, gfp_t flags, size_t n, void **p)
{
	if (is_too_many(s, n))
		return 0;
	for (size_t done = 0; done < n; done++) {
		p[done] = cache_alloc(s, flags);
		if (!p[done]) {
			/* Each is charged, hardened and counted already. */
			kmem_cache_free_bulk(s, done, p);
			return 0;
		}
	}
	tools_wrote(p, n * sizeof(*p));
	return (int)n;
}

static OS_NOINLINE int alloc_bulk_called(struct kmem_cache *s, gfp_t flags, size_t n, void **p)
{
	unsigned int done;

	if (cache_follows_policy())
		return alloc_bulk_strict(s, flags, n, p);
	done = n && n <= INT_MAX ? sheaf_pop_bulk(&s->sheaf, p, (unsigned int)n) : 0;
	return alloc_bulk_slow(s, flags, n, p, done);
}

#ifdef HAVE_RSEQ
static OS_FAST OS_NOINLINE int alloc_many(struct kmem_cache *s, gfp_t flags, size_t n, void **p)
{
	unsigned int done = rseq_pop_bulk_once((char *)s, p, (unsigned int)n);

	if (os_likely(done == n && !(flags & ~SHEAF_GFP_PLAIN) && !os_watched()))
		return (int)n;
	return alloc_bulk_slow(s, flags, n, p, done);
}
#endif

/*
 * For one object, the section of a single call, if the cache's word is its index. The section for
 * arrays is not inline: it needs so many registers that saving them costs as much as the section
 * for one. The same for free.
 */
SHEAF_PUBLIC int kmem_cache_alloc_bulk(struct kmem_cache *s, gfp_t flags, size_t n, void **p)
{
	if (os_unlikely(!s))
		return (int)cache_report_null("kmem_cache_alloc_bulk");
	if (n == 1 && !(flags & ~SHEAF_GFP_PLAIN) && os_likely(cache_pop_uncounted(s, p)))
		return 1;
#ifdef HAVE_RSEQ
	if (!os.bulk_called && n - 1 < INT_MAX)
		return alloc_many(s, flags, n, p);
#endif
	return alloc_bulk_called(s, flags, n, p);
}

/* True if all of these are on this node, and may enter sheaves unchanged. One test for all: the
 * size of a range is a power of two, so if the OR of all offsets is below it, so is each offset. */
static bool all_local(void **p, unsigned int n, unsigned int node)
{
	uintptr_t home = (uintptr_t)pages.base + ((uintptr_t)node << pages.range_shift), bits = 0;

	for (unsigned int i = 0; i < n; i++)
		bits |= (uintptr_t)p[i] - home;
	return bits >> pages.range_shift == 0;
}

/* Free the objects for which main had no room, or which may not enter it. */
static void free_rest(struct kmem_cache *s, void **p, unsigned int n)
{
	unsigned int done = 0;

	if (cache_is_gone(s, "kmem_cache_free_bulk"))
		return;
	if (!all_local(p, n, os_node())) {
		for (unsigned int i = 0; i < n; i++)
			cache_free_slow(s, p[i], "kmem_cache_free_bulk");
		return;
	}
	if (!cache_is_leaked(s))
		done = sheaf_free_bulk(&s->sheaf, p, n);
	cache_see_flow(s);
	cache_give(s, p + done, n - done, "kmem_cache_free_bulk");
}

static bool free_to(struct kmem_cache *s, size_t n, void **p)
{
	bool rest = false;

	while (n) {
		unsigned int batch = n < BATCH_MAX ? (unsigned int)n : BATCH_MAX;
		unsigned int done = section_push_bulk(&s->sheaf.at, p, batch);

		if (done < batch) {
			free_rest(s, p + done, batch - done);
			rest = true;
		}
		p += batch;
		n -= batch;
	}
	return rest;
}

void cache_free_all(struct kmem_cache *s, size_t n, void **p)
{
	if (free_to(s, n, p))
		cache_leave();
}

static bool watch_free(struct kmem_cache *s, void *object, bool waited, const char *call)
{
	if (!waited || !cache_is_hardened(s))
		return cache_watch_free(s, object, call);
	hardened_free_waited(s, object);
	account_freed(s, 1, &object);
	return true;
}

static OS_COLD void free_watched(struct kmem_cache *s, size_t n, void **p, bool waited,
				 const char *call)
{
	size_t from = 0;

	for (size_t i = 0; i < n; i++)
		if (!watch_free(s, p[i], waited, call)) {
			free_to(s, i - from, p + from);
			from = i + 1;
		}
	free_to(s, n - from, p + from);
}

static void free_same_owner(struct kmem_cache *s, size_t n, void **p, bool waited, const char *call)
{
	if (cache_is_checked(s)) {
		for (size_t i = 0; tsan_is_on() && i < n; i++)
			cache_tell_freed(s, p[i]);
		cache_give_checked(s, p, n, waited, call);
	} else if (os_watched() && cache_is_watched(s)) {
		free_watched(s, n, p, waited, call);
	} else {
		free_to(s, n, p);
	}
}

/* Consecutive objects of one cache are freed to that cache. */
static void free_by_owner(size_t n, void **p, bool waited, const char *call)
{
	while (n) {
		struct slab_cache *owner = page_owner(p[0]);
		size_t run = 1;

		if (guard_is_ours(p[0])) {
			cache_free_guarded(NULL, p[0], waited, call);
		} else if (!owner) {
			if (waited)
				large_free_waited(p[0], call);
			else
				cache_free_any(p[0], call);
		} else {
			while (run < n && page_owner(p[run]) == owner)
				run++;
			free_same_owner(cache_of_slab(owner), run, p, waited, call);
		}
		p += run;
		n -= run;
	}
}

void cache_free_waited(size_t n, void **p, const char *call)
{
	free_by_owner(n, p, true, call);
}

static OS_NOINLINE void free_bulk_slow(struct kmem_cache *s, size_t n, void **p)
{
	bool may_keep = true;

	if (!s)
		free_by_owner(n, p, false, "kmem_cache_free_bulk");
	else if (os_watched() && cache_is_watched(s))
		free_watched(s, n, p, false, "kmem_cache_free_bulk");
	else
		may_keep = free_to(s, n, p);
	if (may_keep)
		cache_leave();
}

#ifdef HAVE_RSEQ
static OS_NOINLINE void free_bulk_rest(struct kmem_cache *s, void **p, unsigned int n)
{
	free_rest(s, p, n);
	cache_leave();
}

static OS_FAST OS_NOINLINE void free_many(struct kmem_cache *s, size_t n, void **p)
{
	unsigned int done = rseq_push_bulk_once((char *)s, p, (unsigned int)n);

	if (os_unlikely(done < n))
		free_bulk_rest(s, p + done, (unsigned int)n - done);
}
#endif

SHEAF_PUBLIC void kmem_cache_free_bulk(struct kmem_cache *s, size_t n, void **p)
{
	if (n == 1 && s && os_likely(cache_push(s, p[0])))
		return;
#ifdef HAVE_RSEQ
	if (s && !os_watched() && os.backend == OS_BACKEND_RSEQ && !os.counting &&
	    n - 1 < BATCH_MAX) {
		free_many(s, n, p);
		return;
	}
#endif
	free_bulk_slow(s, n, p);
}
