/* SPDX-License-Identifier: MIT */
/* Objects of debug caches, and guarded ones; see checked.c. Callers: src/cache/. */
#ifndef SHEAF_CACHE_CHECKED_H
#define SHEAF_CACHE_CHECKED_H

#include "cache/cache.h"
#include "debug/guard.h"

/* --- debug caches ----------------------------------------------------------------------------- */

void *cache_alloc_checked(struct kmem_cache *s, gfp_t flags, unsigned int node,
			  enum slab_place place);
/* debug_take() and debug_free() of src/debug/; what is freed gives its charge back. */
bool cache_take_checked(struct kmem_cache *s, void *object);
bool cache_free_checked(struct kmem_cache *s, void *object, bool waited, const char *call);
/* waited: the objects were retired, and their grace period has passed. */
void cache_give_checked(struct kmem_cache *s, void **objects, size_t n, bool waited,
			const char *call);

/* --- objects between guard pages -------------------------------------------------------------- */

/* A guarded object of the cache; NULL: there is no room for one. */
void *cache_alloc_guarded(struct kmem_cache *s);
/* A guarded object, if the next object of this cache is to be a sample. */
void *cache_take_sample(struct kmem_cache *s, bool popped);
/* Free a guarded object to this cache, or, with NULL, to its own cache. Reports are deferred. */
void cache_free_guarded(struct kmem_cache *s, void *object, bool waited, const char *call);
/* Free the guarded ones of n objects, and move the others to the front; returns how many are
 * left. */
unsigned int cache_free_all_guarded(struct kmem_cache *s, void **objects, unsigned int n,
				    const char *call);
/* The cache of the guarded object in use that contains the address; NULL: there is none. */
struct kmem_cache *cache_of_guarded(const void *object);

#endif
