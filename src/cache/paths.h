/* SPDX-License-Identifier: MIT */
/* Allocating and freeing. Callers: src/cache/ and the layers above. */
#ifndef SHEAF_CACHE_PATHS_H
#define SHEAF_CACHE_PATHS_H

#include "cache/calls.h"
#include "cache/housekeeping.h"
#include "cache/process.h"
#include "grace/grace.h"
#include "group/group.h"
#include "os/bytes.h"

/* --- fast.c ----------------------------------------------------------------------------------- */

/* At the end of each call that may have taken a slow path, with no lock held and nothing in hand:
 * do what was deferred until now. */
static inline void cache_leave(void)
{
	grace_start_wanted();
	housekeep_if_due();
	os_report_kept();
	group_leave();
	control_look_if_on();
}

/* After a pop or a push that was not done: the rest of the allocation or free. */
void *cache_alloc_unpopped(struct kmem_cache *s, gfp_t flags);
void cache_free_unpushed(struct kmem_cache *s, void *object);

/* --- table.c ---------------------------------------------------------------------------------- */

/* Set the calls of a cache, by its flags and the options. No other thread may use the cache
 * meanwhile. */
void cache_choose_calls(struct kmem_cache *s);
/* Those of allocations, after a change of `accounted` or `sampled`, and a fence. */
void cache_choose_again(struct kmem_cache *s);
/* Is a free one section, and nothing else? Then an allocation is, too, unless it is sampled. */
bool cache_frees_plainly(const struct kmem_cache *s);
/* The calls without accounting, with and without samples; free calls are the same. */
struct cache_calls cache_calls_if(struct kmem_cache *s, bool sampled);
static inline struct cache_calls cache_base_calls(struct kmem_cache *s)
{
	return cache_calls_if(s, cache_is_sampled(s));
}
/* From now on allocations of a leaked cache fail, after a report. */
void cache_refuse_allocations(struct kmem_cache *s);
/* The cache was destroyed: from now on its calls only report that. */
void cache_refuse_calls(struct kmem_cache *s);

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

/* The program's sanitizer does not see every clearing by the library. */
static inline void cache_zero(const struct kmem_cache *s, void *object)
{
	os_zero(object, s->sheaf.slab.object_size);
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
 * a sample. */
bool cache_alloc_all(struct kmem_cache *s, gfp_t flags, unsigned int n, void **p);
void cache_free_all(struct kmem_cache *s, size_t n, void **p);

/* The program frees this pointer; NULL is allowed. False after a report: ignore it. */
bool cache_watch_free(struct kmem_cache *s, void *object, const char *call);
/* The program gets these objects. False: there is no memory, and it gets none. */
bool cache_watch_taken(struct kmem_cache *s, gfp_t flags, size_t n, void **objects);

static inline bool cache_freed(struct kmem_cache *s, void *object, const char *call)
{
	return !os_watched() || cache_watch_free(s, object, call);
}

/* --- nolock.c --------------------------------------------------------------------------------- */

/* Allocate without waiting, from this node if it has an object; or return NULL. */
void *cache_alloc_try(struct kmem_cache *s, gfp_t gfp, unsigned int node);

/* --- checked.c: objects of debug caches ------------------------------------------------------- */

void *cache_alloc_checked(struct kmem_cache *s, gfp_t flags, unsigned int node,
			  enum slab_place place);
/* debug_take() and debug_free() of src/debug/; what is freed gives its charge back. */
bool cache_take_checked(struct kmem_cache *s, void *object);
bool cache_free_checked(struct kmem_cache *s, void *object, bool waited, const char *call);
/* waited: the objects were retired, and their grace period has passed. */
void cache_give_checked(struct kmem_cache *s, void **objects, size_t n, bool waited,
			const char *call);

/* --- checked.c: objects between guard pages --------------------------------------------------- */

/* A guarded object of the cache; NULL: there is no room for one. */
void *cache_alloc_guarded(struct kmem_cache *s);
/* A guarded object, if the next object of this cache is to be a sample. popped: the fast path found
 * none, or its countdown ended. */
void *cache_take_sample(struct kmem_cache *s, bool popped);
/* Of n objects that were taken together, put samples in the places of those that are drawn. */
void cache_sample_among(struct kmem_cache *s, size_t n, void **objects);
/* Free a guarded object to this cache, or, with NULL, to its own cache. Reports are deferred. */
void cache_free_guarded(struct kmem_cache *s, void *object, bool waited, const char *call);
/* Free the guarded ones of n objects, and move the others to the front; returns how many are
 * left. */
unsigned int cache_free_all_guarded(struct kmem_cache *s, void **objects, unsigned int n,
				    const char *call);
/* The cache of the guarded object in use that contains the address; NULL: there is none. */
struct kmem_cache *cache_of_guarded(const void *object);

#endif
