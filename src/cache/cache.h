/* SPDX-License-Identifier: MIT */
/*
 * A cache: its calls, its per-CPU part with its slabs, and the fields that create needs.
 *
 * Invariants
 *  CACHE-C1. `calls` is the first member (the public header reads it), and is set before any thread
 *      can see the cache: for the backend, the index, and whether every call must look at the node.
 *      Later it changes to calls with the same meaning, depending on the cache's flow; to those
 *      that charge (ACCOUNT-A1); and to those that only report, when the cache is destroyed.
 *  CACHE-C2. A cache is on the list from its creation until its last name is destroyed. A cache
 *      that is destroyed with live objects (leaked) stays on the list, for fork, without a name and
 *      no longer shared. From then on it takes objects back, and nothing else: they go to their
 *      slabs, so its slots stay without sheaves, and no fast path finds an object.
 *
 * Locks: OS_RANK_CACHES for the list, names and reference counts.
 * Callers: src/cache/.
 */
#ifndef SHEAF_CACHE_CACHE_H
#define SHEAF_CACHE_CACHE_H

#include <sheaf/slab.h>

#include <string.h>

#include "cache/housekeeping.h"
#include "cache/index.h"
#include "debug/slab_debug.h"
#include "grace/grace.h"
#include "group/group.h"
#include "os/channel.h"
#include "os/compiler.h"
#include "os/lock.h"
#include "os/machine.h"
#include "os/options/options.h"
#include "os/report/report.h"
#include "os/tools.h"
#include "os/tsan.h"
#include "percpu/sheaf.h"

/* Hardened caches: see hardened.h. */
#define CACHE_HARDENED                                                                             \
	(CACHE_CHECK_POP | CACHE_CHECK_FREE | CACHE_MARKED | CACHE_ZERO_ALLOC | CACHE_ZERO_FREE)

/* The contents of a cache's handle; os/section.h says where a handle lies. */
struct kmem_cache {
	struct sheaf_calls calls;
	char *name; /* NULL: destroyed. What precedes the name: list.c */
	slab_flags_t flags;
	uint32_t nr_names; /* sheaf_trim() reads it without the lock */
	struct kmem_cache *next;
	uint8_t unmergeable;
	uint8_t rcu_begun;    /* sheaf.rcu exists, or a thread is creating it */
	uint8_t used_rcu_any; /* retired objects before sheaf.rcu existed: see rcu/any.h */
	uint8_t retire_by;    /* os.id_offset; 0: kfree_rcu() must look at the cache first */
	uint32_t id;	      /* caches are numbered as they are created */
	struct sheaf_cache sheaf;
	uint32_t group;	     /* the number of its own group, or 0: account.h */
	uint16_t accounted;  /* its objects may be charged: account.h */
	uint8_t owner_shift; /* copied for the fast paths: owner_shift() */
	uint8_t gone;	     /* off the list: its memory is freed next */
};

_Static_assert(offsetof(struct kmem_cache, sheaf.bootstrap) == offsetof(struct slot, main),
	       "the handle is nobody's slot");
_Static_assert(sizeof(struct kmem_cache) <= SHEAF_HANDLE, "a cache fits its handle");

/* A layer above that has its own locks, of a rank after all others, provides this for fork(). */
struct fork_part {
	void (*lock)(void);
	void (*unlock)(void);
	void (*in_child)(void); /* before unlock() */
};

struct caches {
	struct os_lock lock;
	struct os_lock family; /* for a thread that creates a family of caches: OS_RANK_KMALLOC */
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
	struct index by_name, by_layout; /* see list.h */
	const struct fork_part *pools;	 /* NULL until there is a memory pool */
	/* The cache of kmalloc() whose objects are charged, in place of this one; NULL: none. */
	struct kmem_cache *(*twin)(struct kmem_cache *s);
};

extern struct caches caches;

/* --- process.c, and in src/stats/ print.c ----------------------------------------------------- */

/* Initialise the library at its first use. Returns false if there is no memory for it. */
bool caches_ready(void);

/* Take part in each fork() from now on. Memory pools are the only layer above that has locks. */
void cache_join_fork(const struct fork_part *pools);

/* At the first use: remember the file that statistics go to at exit. */
void stats_begin(void);
/* At exit, with SHEAF_OPTIONS=stats. Referenced here, so that a program linked with the static
 * library includes it. */
void stats_at_exit(void);
/* The same with SHEAF_OPTIONS=leaks: caches with objects in use. */
void leaks_at_exit(void);

/* In src/control/ control.c: answer another process, if one asks. The caller holds no lock and has
 * nothing in hand. */
void control_look(void) OS_COLD;

/* --- create.c --------------------------------------------------------------------------------- */

/* kmem_cache_create(), except that its reports are deferred. */
struct kmem_cache *cache_create(const char *name, size_t size, const struct kmem_cache_args *args,
				slab_flags_t flags);

/* --- destroy.c, in_use.c ---------------------------------------------------------------------- */

/* Free all of it except the handle, which then has no owner. The cache is on no list, and no object
 * is in use. */
void cache_unmake(struct kmem_cache *s);

/* CACHE-C2: was it destroyed while objects were in use? */
static inline bool cache_is_leaked(const struct kmem_cache *s)
{
	return os_unlikely(!os_load_relaxed(&s->nr_names));
}

/* True, after a report, if the cache is NULL or was destroyed. For slow calls; the fast calls of a
 * destroyed cache are exchanged instead. The second one is for any context. */
bool cache_is_unusable(struct kmem_cache *s, const char *call) OS_COLD;
bool cache_is_unusable_nowait(struct kmem_cache *s, const char *call) OS_COLD;

/* The same for frees, which a leaked cache takes. */
static inline bool cache_is_gone(struct kmem_cache *s, const char *call)
{
	return os_unlikely(!s || !s->name) && cache_is_unusable(s, call);
}
/* That report, deferred. */
void cache_report_unusable(struct kmem_cache *s, const char *call);

/* Report that the cache is NULL; returns 0. For fast paths, which return this, as the last thing
 * that they do, and so need no stack frame. */
uintptr_t cache_report_null(const char *call) OS_COLD;

/* True, after a report: the first test of other calls that read the cache before that. */
static inline bool cache_is_null(struct kmem_cache *s, const char *call)
{
	return os_unlikely(!s) && cache_is_unusable(s, call);
}

/* Put the objects that src/debug/ took out of use into their slabs, when a drained cache ends. */
void cache_give_leaked(struct kmem_cache *s);
/* Count the live objects of a drained cache, and list up to `room` of them. */
size_t cache_live_objects(struct kmem_cache *s, void **objects, size_t room);

/* --- validate.c ------------------------------------------------------------------------------- */

/* Check a pinned cache while it is in use; returns the number of faults, which are reported. */
int cache_validate(struct kmem_cache *s);

/* --- fast.c ----------------------------------------------------------------------------------- */

/* At the end of each call that may have taken a slow path, with no lock held and nothing in hand:
 * do what was deferred until now. */
static inline void cache_leave(void)
{
	grace_start_wanted();
	housekeep_if_due();
	os_report_kept();
	group_leave();
	if (os_unlikely(os_load_relaxed(&os_channel_is_on)))
		control_look();
}

/* Set the calls of a cache, by its flags and the options. No other thread may use the cache
 * meanwhile. */
void cache_choose_calls(struct kmem_cache *s);
/* Is a call one section, and nothing else? */
bool cache_is_plain(const struct kmem_cache *s);
/* The calls without accounting. */
struct sheaf_calls cache_base_calls(struct kmem_cache *s);
/* From now on allocations of a leaked cache fail, after a report. */
void cache_refuse_allocations(struct kmem_cache *s);
/* The calls of a destroyed cache, which only report that it was destroyed. */
struct sheaf_calls cache_calls_destroyed(void);

/* React to a change in how the cache is used (src/percpu/flow.c): exchange its calls, publish
 * another capacity. */
void cache_flow_changed(struct kmem_cache *s);

/* Called before cache_leave(), at the end of slow paths that exchange whole sheaves. If one misses
 * a change, the next one handles it. */
static inline void cache_see_flow(struct kmem_cache *s)
{
	if (os_unlikely(os_load_relaxed(&s->sheaf.flow_changed)))
		cache_flow_changed(s);
}

/* --- slow.c ----------------------------------------------------------------------------------- */

/* Get an object from the slab layer when sheaves had none; the gfp flags decide whether the call
 * reclaims, waits or fails. popped: the fast path tried to pop one, which counts down to the next
 * sample. */
void *cache_alloc_slow(struct kmem_cache *s, gfp_t flags, bool popped);
void *cache_alloc_on(struct kmem_cache *s, gfp_t flags, unsigned int node, enum slab_place place);
/* An allocation returns NULL: count it, if a limit is the reason. */
void cache_count_failure(struct kmem_cache *s) OS_COLD;
/* Move free objects out of the sheaves and the quarantine, and free slabs without live objects;
 * returns the number of slabs left. */
unsigned int cache_give_up_free(struct kmem_cache *s);

/* kmem_cache_alloc_node(), not charged. */
void *cache_alloc_node(struct kmem_cache *s, gfp_t flags, int node);

void cache_free_slow(struct kmem_cache *s, void *object, const char *call);
/* Free objects straight to their slabs. */
void cache_give(struct kmem_cache *s, void **objects, unsigned int n, const char *call);

/* Compilers inline memset(), so the program's sanitizer does not see every clearing by the
 * library. */
static inline void cache_zero(const struct kmem_cache *s, void *object)
{
	memset(object, 0, s->sheaf.slab.object_size);
	tools_wrote(object, s->sheaf.slab.object_size);
}

/* At the end of an allocation: clear the object if the flags say so. NULL is allowed. */
void *cache_finish(struct kmem_cache *s, void *object, gfp_t flags);

/* Report a gfp flag that does not exist, later. Returns the flags without it. */
gfp_t cache_check_gfp_later(struct kmem_cache *s, gfp_t flags);
gfp_t cache_check_gfp(struct kmem_cache *s, gfp_t flags);
/* Report a node that does not exist, and replace it with NUMA_NO_NODE; returns false with
 * __GFP_THISNODE. */
bool cache_check_node(struct kmem_cache *s, gfp_t flags, int *node);

/*
 * Tell the thread sanitizer that the program frees this object, if it is an object of this cache.
 */
void cache_tell_freed(struct kmem_cache *s, void *object);

/* --- bulk.c ----------------------------------------------------------------------------------- */

/* kmem_cache_alloc_bulk() and kmem_cache_free_bulk(), but the objects are not checked, and none is
 * a sample: sheaves hold only objects of slabs. */
bool cache_alloc_all(struct kmem_cache *s, gfp_t flags, unsigned int n, void **p);
void cache_free_all(struct kmem_cache *s, size_t n, void **p);

/* slab_strict_numa: each allocation that names no node follows the thread's memory policy. */
static inline bool cache_follows_policy(void)
{
	return os_options.strict_numa && os.nr_nodes > 1;
}

/* Must slow calls look at each object of this cache? They ask this only if os_watched(). */
static inline bool cache_is_watched(const struct kmem_cache *s)
{
	return (s->flags & CACHE_HARDENED) || os_load_relaxed(&s->accounted) || tsan_is_on();
}

static inline bool cache_is_hardened(const struct kmem_cache *s)
{
	return os_unlikely(s->flags & CACHE_HARDENED);
}

/* The program frees this pointer; NULL is allowed. False after a report: ignore it. */
bool cache_watch_free(struct kmem_cache *s, void *object, const char *call);
/* The program gets these objects. False: there is no memory, and it gets none. */
bool cache_watch_taken(struct kmem_cache *s, gfp_t flags, size_t n, void **objects);

static inline bool cache_freed(struct kmem_cache *s, void *object, const char *call)
{
	return !os_watched() || cache_watch_free(s, object, call);
}

/* The call's name in reports. */
static inline const char *cache_free_call(const struct kmem_cache *s)
{
	return s->flags & CACHE_KMALLOC ? "kfree" : "kmem_cache_free";
}

/* --- checked.c: the same for debug caches ----------------------------------------------------- */

void *cache_alloc_checked(struct kmem_cache *s, gfp_t flags, unsigned int node,
			  enum slab_place place);
/* debug_take() and debug_free() of src/debug/; what is freed gives its charge back. */
bool cache_take_checked(struct kmem_cache *s, void *object);
bool cache_free_checked(struct kmem_cache *s, void *object, bool waited, const char *call);
/* waited: the objects were retired, and their grace period has passed. */
void cache_give_checked(struct kmem_cache *s, void **objects, size_t n, bool waited,
			const char *call);

/* --- guarded.c: objects between guard pages --------------------------------------------------- */

/* A guarded object of the cache; NULL: there is no room for one. */
void *cache_alloc_guarded(struct kmem_cache *s);
/* The same, if the next object of this cache is to be a sample. */
void *cache_take_sample(struct kmem_cache *s, bool popped);
/* Free a guarded object to this cache, or, with NULL, to its own cache. Reports are deferred. */
void cache_free_guarded(struct kmem_cache *s, void *object, bool waited, const char *call);
/* Free the guarded ones of n objects, and move the others to the front; returns how many are
 * left. */
unsigned int cache_free_all_guarded(struct kmem_cache *s, void **objects, unsigned int n,
				    bool waited, const char *call);
/* The cache of the guarded object in use that contains the address; NULL: there is none. */
struct kmem_cache *cache_of_guarded(const void *object);

/* Is each object of this cache guarded while there is room? */
static inline bool cache_is_guarded(const struct kmem_cache *s)
{
	return os_unlikely(s->flags & DEBUG_GUARD);
}

/* Does the library know who allocated each object in use, or each guarded one? */
static inline bool cache_knows_users(const struct kmem_cache *s)
{
	return debug_stores_users(&s->sheaf.slab) || os_load_relaxed(&s->sheaf.sampled) ||
	       cache_is_guarded(s);
}

/* Is the next object guarded? For calls that do not count down to the next sample. */
static inline bool cache_guards_next(const struct kmem_cache *s)
{
	return cache_is_guarded(s) || (os_unlikely(os_load_relaxed(&s->sheaf.sampled)) &&
				       sample_is_taken(s->sheaf.slab.object_size));
}

static inline bool cache_is_checked(const struct kmem_cache *s)
{
	return os_unlikely(s->flags & CACHE_DEBUG);
}

/* --- nolock.c, kfree_rcu.c -------------------------------------------------------------------- */

/* Allocate without waiting, from this node if it has an object; or return NULL. */
void *cache_alloc_try(struct kmem_cache *s, gfp_t gfp, unsigned int node);

/* True if the process has no provider and needs none: retired objects are freed at once. */
static inline bool cache_has_no_readers(const struct grace *grace)
{
	return !grace && os_load_acquire(&caches.no_readers);
}

/*
 * Let the cache retire objects with this provider, for which rcu_any_init() was called. Never
 * waits.
 */
bool cache_begin_rcu(struct kmem_cache *s, struct grace *grace);
/* From now on look at retired objects of this cache when their grace period has passed. */
void cache_see_passed(struct kmem_cache *s);

/* ---------------------------------------------------------------------------------------------- */

static inline struct kmem_cache *cache_of_slab(struct slab_cache *slab)
{
	return (struct kmem_cache *)((char *)slab - offsetof(struct kmem_cache, sheaf.slab));
}

#endif
