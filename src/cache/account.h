/* SPDX-License-Identifier: MIT */
/*
 * Charging objects to groups (group/group.h), and returning their bytes.
 *
 *   allocation: take an object --> charge --> store the number of the group (slab/owner.h)
 *   free:       take the number --> give the bytes back --> free the object
 *   retired:    the same when the grace period has passed, before any thread gets the object
 *
 *   `accounted`     which calls a cache has
 *   0               those of fast.c: nothing is charged
 *   ACCOUNT_FREES   its frees look for a number: an object was allocated with __GFP_ACCOUNT
 *   ACCOUNT_ALL     SLAB_ACCOUNT or a group of its own: allocations charge, too
 *
 * Caches of kmalloc() stay plain: __GFP_ACCOUNT leads to others, kmalloc-cg-N, which have
 * SLAB_ACCOUNT. Another cache changes at its first object with __GFP_ACCOUNT. A cache with
 * SLAB_ACCOUNT changes when the first group is created: before that nothing is charged, and no
 * call costs more.
 *
 * Invariants
 *  ACCOUNT-A1. `accounted` and the calls change before the first charged object is handed to the
 *      program, and stay. A thread that frees a charged object got it after that, so it finds them.
 *  ACCOUNT-A2. No object in a sheaf, a barn or a slab has a number; except in sheaves of retired
 *      objects whose grace period has not passed. An object in a lent sheaf has none: it is charged
 *      when it is taken out, whatever the limits are, because that must not fail. Its slab has had
 *      an array since the sheaf was filled, if the cache or the flags said then that it will be
 *      charged. "A number" is a positive one: with ACCOUNT_ALL, an object in use for which nobody
 *      pays has OWNER_NOBODY, so 0 means that it was uncharged too early.
 *  ACCOUNT-A3. While a function of the program may run, each object that is charged has a number,
 *      and only those: it may fork, and then the child counts anew. So slow calls do everything
 *      that may reclaim or construct before they store the number, and only the stock changes in
 *      between.
 *  ACCOUNT-A4. Other slow calls look for numbers if os_watched(): from the first group on.
 *
 * Locks: none here. Callers: src/cache/, src/kmalloc/.
 */
#ifndef SHEAF_CACHE_ACCOUNT_H
#define SHEAF_CACHE_ACCOUNT_H

#include "cache/paths.h"
#include "group/stock.h"
#include "os/compiler.h"
#include "slab/owner.h"

#define ACCOUNT_FREES 1u
#define ACCOUNT_ALL   2u

/* The number of the group that pays for an object of this cache; GROUP_NONE: nobody does. */
static inline uint32_t account_number(const struct kmem_cache *s)
{
	return os_unlikely(s->group) ? s->group : os_current_group()->group;
}

/* Is an allocation with these flags charged, if somebody pays? */
static inline bool account_charges(const struct kmem_cache *s, gfp_t flags)
{
	return groups_exist() &&
	       (os_load_relaxed(&s->accounted) == ACCOUNT_ALL || flags & __GFP_ACCOUNT);
}

/* And to whom? */
static inline uint32_t account_wanted(const struct kmem_cache *s, gfp_t flags)
{
	return account_charges(s, flags) ? account_number(s) : GROUP_NONE;
}

/* The name of the group that pays for what this thread allocates, if it is charged; "": none. */
static inline const char *account_group(const struct kmem_cache *s)
{
	uint32_t number = groups_exist() ? account_number(s) : GROUP_NONE;

	return number ? group_of_number(number)->name : "";
}

/* --- the calls of such caches ----------------------------------------------------------------- */

/* The cache has charged objects from now on. */
void account_begin(struct kmem_cache *s, uint32_t accounted);
/* The calls of this cache, in place of these. In account_fast.c. */
struct cache_calls account_calls(struct kmem_cache *s, struct cache_calls base);
/* Those of BY_CHARGED. In account_fast.c. */
void *account_alloc_fast(struct kmem_cache *s, gfp_t flags);
void account_free_fast(struct kmem_cache *s, void *object);
/* Allocate as those that charge do, whatever calls the cache has. In account_fast.c. */
void *account_alloc_charged(struct kmem_cache *s, gfp_t flags);
/* An object of this cache, charged to this number; or charge the object that was taken for it,
 * which may have the number already. */
void *account_alloc_for(struct kmem_cache *s, gfp_t flags, int node, uint32_t number);
/* An object for which nobody pays. */
void *account_alloc_unpaid(struct kmem_cache *s, gfp_t flags, int node);
void *account_finish(struct kmem_cache *s, gfp_t flags, void *object);
/* An allocation with __GFP_ACCOUNT from a cache with other calls, or on a node; NUMA_NO_NODE: any.
 */
void *account_alloc(struct kmem_cache *s, gfp_t flags, int node);

/* --- for other calls -------------------------------------------------------------------------- */

/* Where the number of this object is kept. Makes the array of its slab, if there is none; with
 * `wait` false, only if that takes no wait. NULL: there is no memory. */
uint32_t *account_place(struct kmem_cache *s, void *object, bool wait);
/* Charge n objects that the program gets. False: a limit is reached, or there is no memory. May
 * reclaim, if the flags allow it. */
bool account_taken(struct kmem_cache *s, gfp_t flags, size_t n, void **objects);
/* The same for one object, in any context. GROUP_FORCE: for an object of a lent sheaf, which cannot
 * fail. */
bool account_taken_nowait(struct kmem_cache *s, gfp_t flags, void *object, enum group_force force);
/* The program frees these objects, or their grace period has passed. What checks the cache has
 * come before: an ignored free gives nothing back. */
void account_freed(struct kmem_cache *s, size_t n, void *const *objects);

static inline bool cache_is_accounted(const struct kmem_cache *s)
{
	return os_unlikely(os_load_relaxed(&s->accounted));
}

/* The cache ends: drop its reference to its own group, if it has one. */
void cache_leave_group(struct kmem_cache *s);

/* Would an allocation of this many bytes be refused by a limit, as it seems now? */
bool account_refuses(const struct kmem_cache *s, gfp_t flags, uint64_t bytes);
/* Charge bytes of a large block; false: a limit is reached. */
bool account_charge(gfp_t flags, uint64_t bytes, uint32_t number);

/* --- groups.c --------------------------------------------------------------------------------- */

/* For one call: this group pays instead of the current one, until account_own_pays(). */
void account_pays(struct kmem_group *g, const char *call);

static inline void account_own_pays(void)
{
	os_current_group()->group = os_current_group()->own;
}

/* --- in_use.c --------------------------------------------------------------------------------- */

/* Objects of this cache, if it charges all, that are in use although they were uncharged; each
 * is reported. No thread uses the cache. */
int cache_verify_charges(struct kmem_cache *s);

/* --- group_stats.c ---------------------------------------------------------------------------- */

/* The group that owns what has this number: the nearest one upwards that is not over. */
struct kmem_group *account_living(uint32_t number);
/* Its numbers. */
void account_read_group(struct kmem_group *g, struct kmem_group_stats *out);

/* Call look() for all that is charged: objects of slabs, guarded ones and large blocks. What other
 * threads allocate or free meanwhile may be left out, or seen with another group. */
typedef void account_look(void *data, const struct slab_cache *cache, uint64_t bytes,
			  uint32_t number);
void account_for_each(account_look *look, void *data);

/* In a forked child, with no lock held: count all that is charged anew. */
void account_after_fork(void);

#endif
