/* SPDX-License-Identifier: MIT */
/*
 * Hardened caches: every call checks each object that the program gets or frees. Programs without
 * hardened caches pay nothing: hardened caches have calls of their own, and slow calls share one
 * test with the thread sanitizer (os_watched()).
 *
 *   flag              option                     what
 *   CACHE_CHECK_POP   slab_freelist_hardened     a pointer from a sheaf is in a slab of the cache
 *   CACHE_CHECK_FREE  slab_check_free            a pointer that is freed is an object of the cache
 *   CACHE_MARKED      slab_check_double          both, and its mark agrees (page/object_marks.h)
 *   CACHE_ZERO_ALLOC  init_on_alloc              clear objects that the program gets
 *   CACHE_ZERO_FREE   init_on_free, SLAB_SECRET  clear objects that it frees
 *
 *   new slab --> FREE --take--> USED --free--> FREE       the mark: changed after a pop has
 *                                `--retire--> WAITS -->   committed, and before a push is tried
 *
 * Invariants
 *  HARDENED-N1. An object's mark changes when the library hands it to the program, and when the
 *      program frees it. While the object is in a sheaf, barn or slab, its mark is FREE. The
 *      objects of a lent sheaf belong to the program.
 *  HARDENED-N2. A wrong free is reported, and does nothing. An allocation that finds a wrong
 *      pointer leaves it out, and takes an object from a slab, whose bits are outside the slab.
 *  HARDENED-N3. kfree_rcu() pushes no object of such a cache immediately (retires_at_once). Its
 *      slow call checks each object, marks it WAITS, and then pushes it. The object becomes FREE
 *      when the grace period of its sheaf has passed, before any thread gets the sheaf
 *      (rcu/after_grace.c).
 *
 * Debug caches (CACHE_DEBUG) have checks of their own and are never hardened.
 *
 * Locks: none; callers hold no lock and have nothing in hand. Callers: src/cache/.
 */
#ifndef SHEAF_CACHE_HARDENED_H
#define SHEAF_CACHE_HARDENED_H

#include "cache/paths.h"

/* The flags that the options give a cache with these flags and this constructor. */
slab_flags_t hardened_flags(slab_flags_t flags, bool has_ctor);
struct cache_calls hardened_calls(bool sampled);

/*
 * The program gets this object (or NULL). The object is cleared only here, after the check. Returns
 * the object that the program really gets, or NULL. Reports are deferred, here and below.
 */
void *hardened_take(struct kmem_cache *s, void *object, gfp_t flags);
/* The same without a replacement; false: leave the object out. */
bool hardened_take_try(struct kmem_cache *s, void *object);
/* The same for n objects. False: there is no memory, and the program gets none. */
bool hardened_take_all(struct kmem_cache *s, gfp_t flags, size_t n, void **objects);

/*
 * The program frees this pointer, or retires it; NULL may be freed. False after a report: ignore
 * it.
 */
bool hardened_free(struct kmem_cache *s, void *object, const char *call);
bool hardened_retire(struct kmem_cache *s, void *object, const char *call);
/* As far as its mark says: does the program use this object of the cache, or, with `retired`, may
 * readers? */
bool hardened_is_used(const struct kmem_cache *s, const void *object, bool retired);
/* The grace period of a retired object has passed. */
void hardened_free_waited(struct kmem_cache *s, void *object);

#endif
