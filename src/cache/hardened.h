/* SPDX-License-Identifier: MIT */
/*
 * Hardened caches: each object is looked at as the program gets it and as it frees it, in every
 * call. A program that does not ask for this pays nothing: hardened caches have calls of their own,
 * and slow calls share one test with the thread sanitizer (os.watched).
 *
 *   flag              option                     what
 *   CACHE_CHECK_POP   slab_freelist_hardened     a pointer from a sheaf is in a slab of the cache
 *   CACHE_CHECK_FREE  slab_check_free            a pointer that is freed is an object of the cache
 *   CACHE_MARKED      slab_check_double          both, and its mark says the same (page/mark.h)
 *   CACHE_ZERO_ALLOC  init_on_alloc              clear what the program gets
 *   CACHE_ZERO_FREE   init_on_free               clear what it frees
 *
 *   new slab --> FREE --take--> USED --free--> FREE       the mark: changed after a pop has
 *                                `--retire--> WAITS -->   committed, and before a push is tried
 *
 * Invariants
 *  N1. An object is taken once on its way to the program and freed once on its way back, at the
 *      edge of the library: in between, in sheaves, barns and slabs, its mark is FREE. The objects
 *      of a lent sheaf are the program's.
 *  N2. A free that finds a mistake is reported, and does nothing. An allocation that finds one
 *      leaves that pointer out, and takes an object from a slab, whose bits lie beside it.
 *  N3. kfree_rcu() pushes at once only where nothing is watched (os.rcu_by_rseq). So its slow call
 *      looks at each object, marks it WAITS, and pushes it then. It becomes FREE when its sheaf
 *      has waited for its grace period, before anybody gets the sheaf (rcu/passed.c).
 *
 * Debug caches (CACHE_DEBUG) have checks of their own and are never hardened.
 *
 * Locks: none; nothing is held or in hand. Callers: src/cache/.
 */
#ifndef SHEAF_CACHE_HARDENED_H
#define SHEAF_CACHE_HARDENED_H

#include "cache/cache.h"

/* The flags that the options give a cache with these flags and this constructor. */
slab_flags_t hardened_flags(slab_flags_t flags, bool has_ctor);
struct sheaf_calls hardened_calls(bool sampled);

/*
 * The program gets this object (or NULL), which is cleared only here: it may be anything. Returns
 * the object that it really gets, or NULL. Reports are deferred, here and below.
 */
void *hardened_take(struct kmem_cache *s, void *object, gfp_t flags);
/* The same without a replacement; false: leave the object out. */
bool hardened_take_try(struct kmem_cache *s, void *object);
/* The same for n objects; false, and it gets none, if there is no memory. */
bool hardened_take_all(struct kmem_cache *s, gfp_t flags, size_t n, void **objects);

/*
 * The program frees this pointer, or retires it; NULL may be freed. False after a report: ignore
 * it.
 */
bool hardened_free(struct kmem_cache *s, void *object, const char *call);
bool hardened_retire(struct kmem_cache *s, void *object, const char *call);
/* The grace period of a retired object has passed. */
void hardened_free_waited(struct kmem_cache *s, void *object);

#endif
