/* SPDX-License-Identifier: MIT */
/*
 * A cache: the calls that serve it, its per-CPU part with its slabs, and what create needs of it.
 *
 * Invariants
 *  C1. `calls` comes first (the public header reads it), and is set before anybody can see the cache:
 *      which backend, which index, whether every call must look at the node. Later it changes only
 *      to calls of the same meaning, with the cache's flow.
 *  C2. A cache is on the list from create to the destroy of its last name. One that is destroyed
 *      with live objects stays there, for fork, without a name and shared with nobody.
 *
 * Locks: OS_RANK_CACHES for the list, names and reference counts, and the list of memory pools.
 * Callers: src/cache/.
 */
#ifndef SHEAF_CACHE_CACHE_H
#define SHEAF_CACHE_CACHE_H

#include <sheaf/slab.h>

#include "cache/index.h"
#include "grace/grace.h"
#include "os/lock.h"
#include "os/report.h"
#include "os/tsan.h"
#include "percpu/sheaf.h"

#define SHEAF_PUBLIC __attribute__((visibility("default")))

/* Among `flags`: a cache of kmalloc()'s sizes, whose objects come back by kfree(). */
#define CACHE_KMALLOC 0x8000u

/* What a cache's handle holds: see os/section.h for why it is where it is. */
struct kmem_cache {
	struct sheaf_calls calls;
	char *name; /* NULL: destroyed. What lies before it: list.c */
	slab_flags_t flags;
	uint32_t nr_names;
	struct kmem_cache *next;
	struct sheaf_cache sheaf;
	uint8_t unmergeable;
	uint8_t rcu_begun;    /* sheaf.rcu is there, or somebody makes it */
	uint8_t used_rcu_any; /* before sheaf.rcu was there: see rcu/any.h */
	uint8_t gone;	      /* off the list: what it is made of is freed next */
	uint32_t id;	      /* caches are numbered as they are made */
};

_Static_assert(offsetof(struct kmem_cache, sheaf.bootstrap) == offsetof(struct slot, main),
	       "the handle is nobody's slot");
_Static_assert(sizeof(struct kmem_cache) <= SHEAF_HANDLE, "a cache fits its handle");

/* What fork() asks of a layer above that has locks of its own, of a rank after all others. */
struct fork_part {
	void (*lock)(void);
	void (*unlock)(void);
	void (*in_child)(void); /* before unlock() */
};

struct caches {
	struct os_lock lock;
	struct os_lock family; /* for who makes a family of caches: OS_RANK_KMALLOC */
	uint32_t ready;	       /* the library is initialised */
	uint32_t warned_name;
	uint32_t warned_node;
	uint32_t warned_memory;
	uint32_t no_readers; /* the program said so: sheaf_rcu_none() */
	uint32_t fork_lost;
	uint32_t fork_handled;
	uint32_t nr_made, nr;
	struct kmem_cache *first;
	struct index by_name, by_layout; /* see list.h */
	const struct fork_part *pools;	 /* NULL until there is a memory pool */
};

extern struct caches caches;

/* --- process.c, and in src/stats/ exit.c ------------------------------------------------------- */

/* Initialise the library at its first use. False if there is no memory for it. */
bool caches_ready(void);

/* At exit, with SHEAF_OPTIONS=stats. Named here, so that a program linked with the static library has it. */
void stats_at_exit(void);

/* --- create.c ---------------------------------------------------------------------------------- */

/* kmem_cache_create(), but for reports that are kept. */
struct kmem_cache *cache_create(const char *name, size_t size, const struct kmem_cache_args *args,
				slab_flags_t flags);

/* --- destroy.c, verify.c ----------------------------------------------------------------------- */

/* All of it but the handle, which is nobody's then. On no list, with no object out. */
void cache_unmake(struct kmem_cache *s);

/* True after a report, if the cache was destroyed: for cold parts, the fast calls are exchanged. */
bool cache_was_destroyed(struct kmem_cache *s, const char *call);
/* That report, kept. */
void cache_report_destroyed(struct kmem_cache *s, const char *call);

/* How many live objects a drained cache has; up to `room` of them. */
size_t cache_live_objects(struct kmem_cache *s, void **objects, size_t room);

/* --- fast.c ------------------------------------------------------------------------------------ */

/* The end of each call that may have taken a slow path, with no lock held and nothing in hand: what had to
 * be put off until now. */
static inline void cache_leave(void)
{
	grace_start_wanted();
	os_report_kept();
}

/* Set the calls for a cache, by its flags and the options. Nobody may use it meanwhile. */
void cache_choose_calls(struct kmem_cache *s);
/* For a cache that is destroyed: they only say so. */
struct sheaf_calls cache_calls_destroyed(void);

/* What the cache's use told (src/percpu/flow.c) is done: other calls, another capacity published. */
void cache_flow_changed(struct kmem_cache *s);

/* At the end of slow paths that change whole sheaves; what one leaves the next one does. */
static inline void cache_see_flow(struct kmem_cache *s)
{
	if (__builtin_expect(os_load_relaxed(&s->sheaf.flow_changed), 0))
		cache_flow_changed(s);
}

/* --- slow.c ------------------------------------------------------------------------------------ */

/* Objects from the slab layer when sheaves had none; by gfp it reclaims, waits or fails. */
void *cache_alloc_slow(struct kmem_cache *s, gfp_t flags);
void *cache_alloc_on(struct kmem_cache *s, gfp_t flags, unsigned int node, enum slab_place place);
/* After so many failures before this one: give back what can be, and true to try again. */
bool cache_reclaim(struct kmem_cache *s, gfp_t flags, int tries);
/* Free objects leave the sheaves, and slabs without others their node; how many slabs are left. */
unsigned int cache_give_up_free(struct kmem_cache *s);

void cache_free_slow(struct kmem_cache *s, void *object, const char *call);
/* Objects straight to their slabs. */
void cache_give(struct kmem_cache *s, void **objects, unsigned int n, const char *call);

/* Report a gfp flag that does not exist. Returns the flags without it. The first one keeps the report. */
gfp_t cache_check_gfp_later(struct kmem_cache *s, gfp_t flags);
gfp_t cache_check_gfp(struct kmem_cache *s, gfp_t flags);
/* Report a node that does not exist, and make it NUMA_NO_NODE; false if only that one would do. */
bool cache_check_node(struct kmem_cache *s, gfp_t flags, int *node);

/* The thread sanitizer: the program frees this object, if it is one of this cache. */
void cache_tell_freed(struct kmem_cache *s, void *object);

static inline void cache_freed(struct kmem_cache *s, void *object)
{
	if (__builtin_expect(os.tsan, 0))
		cache_tell_freed(s, object);
}

static inline void cache_all_freed(struct kmem_cache *s, void *const *objects, size_t n)
{
	for (size_t i = 0; __builtin_expect(os.tsan, 0) && i < n; i++)
		cache_tell_freed(s, objects[i]);
}

/* --- nolock.c, kfree_rcu.c --------------------------------------------------------------------- */

/* An object without waiting, from this node if it has any; or NULL. */
void *cache_alloc_try(struct kmem_cache *s, gfp_t gfp, unsigned int node);

/* The process has no provider and needs none: what is retired is freed at once. */
static inline bool cache_has_no_readers(const struct grace *grace)
{
	return !grace && os_load_acquire(&caches.no_readers);
}

/* Let the cache retire objects with this provider, which rcu_any_init() knows. Never waits. */
bool cache_begin_rcu(struct kmem_cache *s, struct grace *grace);

/* ----------------------------------------------------------------------------------------------- */

static inline struct kmem_cache *cache_of_slab(struct slab_cache *slab)
{
	return (struct kmem_cache *)((char *)slab - offsetof(struct kmem_cache, sheaf.slab));
}

#endif
