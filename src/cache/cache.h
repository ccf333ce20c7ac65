/* SPDX-License-Identifier: MIT */
/*
 * A cache: its calls, its per-CPU part with its slabs, and the fields that create needs. The other
 * headers declare what is done with it:
 *
 *     process.h    the process: first use, fork, exit
 *     calls.h      the calls of a cache: fast.c, table.c
 *     paths.h      allocating and freeing: fast.c, slow.c, bulk.c, nolock.c, checked.c
 *     block.h      objects and large blocks, for calls that get any pointer; retired ones
 *
 * Invariants
 *  CACHE-C1. `words` is the first member (the public header reads it). It and `calls` are set
 *      before any thread can see the cache: for the backend, the index, and whether every call must
 *      look at the node. Later they change to what has the same meaning, depending on the cache's
 *      flow; to what charges (ACCOUNT-A1); and to calls that only report, when the cache is
 *      destroyed.
 *  CACHE-C2. A cache is on the list from its creation until its last name is destroyed. A cache
 *      that is destroyed with live objects (leaked) stays on the list, for fork, without a name and
 *      no longer shared. From then on it takes objects back, and nothing else: they go to their
 *      slabs, so its slots stay without sheaves, and no fast path finds an object.
 *
 * Locks: OS_RANK_CACHES for the list, names and reference counts.
 * Callers: src/cache/. What nearly all of its sources need is included here, and only here.
 */
#ifndef SHEAF_CACHE_CACHE_H
#define SHEAF_CACHE_CACHE_H

#include <sheaf/section.h>
#include <sheaf/slab.h>

#include <string.h>

#include "debug/guard.h"
#include "debug/profile.h"
#include "debug/slab_debug.h"
#include "os/assert.h"
#include "os/atomic.h"
#include "os/lock.h"
#include "os/machine.h"
#include "os/memory_tools.h"
#include "os/options/options.h"
#include "os/report/report.h"
#include "os/tsan.h"
#include "percpu/sheaf.h"

/* Hardened caches: see hardened.h. */
#define CACHE_HARDENED                                                                             \
	(CACHE_CHECK_POP | CACHE_CHECK_FREE | CACHE_MARKED | CACHE_ZERO_ALLOC | CACHE_ZERO_FREE)

struct cache_calls {
	void *(*alloc)(struct kmem_cache *s, gfp_t flags);
	void (*free)(struct kmem_cache *s, void *object);
};

/* The contents of a cache's handle; os/section.h says where handles are. */
struct kmem_cache {
	struct sheaf_row_words words;
	struct cache_calls calls;
	char *name; /* NULL: destroyed. What precedes the name: list.c */
	slab_flags_t flags;
	uint32_t nr_names; /* sheaf_trim() reads it without the lock */
	struct kmem_cache *next;
	uint8_t unmergeable;
	uint8_t rcu_begun;    /* sheaf.rcu exists, or a thread is creating it */
	uint8_t used_rcu_any; /* retired objects before sheaf.rcu existed: see rcu/any.h */
	bool retires_at_once; /* kfree_rcu() pushes by a section before it looks at the cache */
	uint32_t id;	      /* caches are numbered as they are created */
	struct sheaf_cache sheaf;
	uint32_t group;			/* the number of its own group, or 0: account.h */
	uint16_t accounted;		/* its objects may be charged: account.h */
	uint8_t owner_shift;		/* copied for the fast paths: owner_shift() */
	uint8_t ending;			/* it is being destroyed: list.h */
	struct sheaf_kmem_buckets *set; /* its family, or NULL: kmalloc/kmalloc.h */
};

_Static_assert(offsetof(struct kmem_cache, words) == 0, "programs read them there");
_Static_assert(sizeof(struct kmem_cache) <= SHEAF_HANDLE, "a cache fits its handle");

struct caches {
	struct os_lock lock;
	struct os_lock family; /* for a thread that makes a cache of a family: OS_RANK_KMALLOC */
	uint32_t ready;	       /* the library is initialised */
	uint32_t warned_name;
	uint32_t warned_node;
	uint32_t warned_memory;
	uint32_t no_readers; /* the program said so with sheaf_rcu_none() */
	uint32_t fork_lost;
	uint32_t fork_handled;
	uint32_t forked; /* this is a forked child */
	uint32_t nr_made, nr;
	struct kmem_cache *first;
	/* The cache of kmalloc() whose objects are charged, in place of this one; NULL: none. */
	struct kmem_cache *(*twin)(struct kmem_cache *s, gfp_t flags);
	const char *free_call;	      /* what reports call the free of kmalloc()'s blocks */
	const struct boot_heap *boot; /* libsheaf-malloc's; NULL: none */
};

extern struct caches caches;

/* --- create.c, destroy.c ---------------------------------------------------------------------- */

/* kmem_cache_create(), except that its reports are deferred. If it must not wait, NULL also means
 * that another thread has the lock of the list. */
struct kmem_cache *cache_create(const char *name, size_t size, const struct kmem_cache_args *args,
				slab_flags_t flags, bool wait);
/* Free all of it except the handle, which then has no owner. The cache is on no list, and no object
 * is in use. */
void cache_unmake(struct kmem_cache *s);

/* --- handles that may not be used: destroy.c -------------------------------------------------- */

/* CACHE-C2: was it destroyed while objects were in use? */
static inline bool cache_is_leaked(const struct kmem_cache *s)
{
	return os_unlikely(!os_load_relaxed(&s->nr_names));
}

/* True, after a report, if the cache is NULL or was destroyed. For slow calls; the fast calls of a
 * destroyed cache are exchanged instead. The second one is for any context. */
bool cache_is_unusable(struct kmem_cache *s, const char *call) OS_COLD;
bool cache_is_unusable_nowait(struct kmem_cache *s, const char *call) OS_COLD;

/* As cache_is_unusable(), for frees, which a leaked cache takes. */
static inline bool cache_is_gone(struct kmem_cache *s, const char *call)
{
	bool gone = os_unlikely(!s || !s->name);

	if (gone)
		cache_is_unusable(s, call);
	return gone;
}
/* That report, deferred. */
void cache_report_unusable(struct kmem_cache *s, const char *call);

/* Report that the cache is NULL; returns 0. For fast paths, which return this, as the last thing
 * that they do, and so need no stack frame. */
uintptr_t cache_report_null(const char *call) OS_COLD;

/* True, after a report: the first test of other calls that read the cache before that. */
static inline bool cache_is_null(struct kmem_cache *s, const char *call)
{
	if (os_unlikely(!s))
		cache_is_unusable(s, call);
	return !s;
}

/* --- what a cache is like --------------------------------------------------------------------- */

/* Must slow calls examine each object of this cache? They ask this only if os_watched(). */
static inline bool cache_is_watched(const struct kmem_cache *s)
{
	return (s->flags & CACHE_HARDENED) || os_load_relaxed(&s->accounted) || tsan_is_on();
}

static inline bool cache_is_hardened(const struct kmem_cache *s)
{
	return os_unlikely(s->flags & CACHE_HARDENED);
}

/* Is each object of this cache guarded while there is room? */
static inline bool cache_is_guarded(const struct kmem_cache *s)
{
	return os_unlikely(s->flags & DEBUG_GUARD);
}

/* Is one object in so many bytes guarded (debug/sample.h)? This may change at any time. */
static inline bool cache_is_sampled(const struct kmem_cache *s)
{
	return os_load_relaxed(&s->sheaf.sampled);
}

/* Does the library know who allocated each object in use, or each guarded one? Samples may be in
 * use after the profile was switched off. */
static inline bool cache_knows_users(const struct kmem_cache *s)
{
	return debug_stores_users(&s->sheaf.slab) || cache_is_sampled(s) || cache_is_guarded(s) ||
	       profile_run();
}

/* Is the next object guarded? For calls that do not count down to the next sample. */
static inline bool cache_guards_next(const struct kmem_cache *s)
{
	return cache_is_guarded(s) ||
	       (os_unlikely(cache_is_sampled(s)) && sample_is_taken(s->sheaf.slab.object_size));
}

static inline bool cache_is_checked(const struct kmem_cache *s)
{
	return os_unlikely(s->flags & CACHE_DEBUG);
}

/* The program asked for so many bytes of this object: a red zone follows them, and the heap profile
 * counts them. */
static inline void cache_set_size(struct kmem_cache *s, void *object, size_t size)
{
	if (cache_is_checked(s))
		debug_set_size(&s->sheaf.slab, object, size);
	else
		guard_set_asked(object, size);
}

/* slab_strict_numa: each allocation that names no node follows the thread's memory policy. */
static inline bool cache_follows_policy(void)
{
	return os_options.strict_numa && os.nr_nodes > 1;
}

/* Its flags, with the letters that fit (SLAB_DEBUG-D7) and are in force now. */
static inline slab_flags_t cache_debug_flags(const struct kmem_cache *s)
{
	if (!cache_is_checked(s))
		return s->flags;
	return (s->flags & ~DEBUG_FLAGS) | debug_flags_now(&s->sheaf.slab);
}

/* The call's name in reports. */
static inline const char *cache_free_call(const struct kmem_cache *s)
{
	return s->flags & CACHE_KMALLOC ? caches.free_call : "kmem_cache_free";
}

static inline struct kmem_cache *cache_of_slab(struct slab_cache *slab)
{
	return (struct kmem_cache *)((char *)slab - offsetof(struct kmem_cache, sheaf.slab));
}

#endif
