/* SPDX-License-Identifier: MIT */
/*
 * The list of caches, and how one is found in it: by its name, or by its layout to be shared.
 *
 *   handle --name--> entry: | handle | prev | in the index of names | of layouts | the name itself |
 *
 * A handle is full (cache.h), so the rest of what the list needs lies before the cache's name.
 *
 * Invariants
 *  L1. The index of names has the caches that somebody may use: those with nr_names > 0.
 *  L2. The index of layouts has those of them that others may share.
 *  L3. A cache that is pinned stays on the list: who looks at every page for it does so without the lock.
 *      One that is off the list is marked as gone, and not pinned again. Its name goes later: reports use it.
 *
 * Locks: OS_RANK_CACHES, held by the callers but where it says otherwise. Callers: src/cache/, src/stats/.
 */
#ifndef SHEAF_CACHE_LIST_H
#define SHEAF_CACHE_LIST_H

#include "cache/cache.h"

#define LIST_FLAGS (SLAB_RECLAIM_ACCOUNT | SLAB_ACCOUNT | SLAB_NO_SHEAVES) /* must be the same */

/* Give the cache this name. False: no memory. */
bool list_name(struct kmem_cache *s, const char *name);
/* One of no list, which has no name then. Needs no lock. */
void list_forget_name(struct kmem_cache *s);

/* Its layout is known. The list begins with the youngest. */
void list_add(struct kmem_cache *s);
/* Nobody gets it any more. */
void list_hide(struct kmem_cache *s);
/* Hidden before: the list does without it when nobody pins it any more. Takes the lock, and waits. */
void list_remove(struct kmem_cache *s);

/* These take the lock. The next one on the list after s, or the first after NULL, is pinned, and s not
 * any more. */
struct kmem_cache *list_next(struct kmem_cache *s);
/* False if it was destroyed, or is gone and about to be. */
bool list_pin(struct kmem_cache *s);
void list_unpin(struct kmem_cache *s);
/* In a forked child, alone: threads that pinned caches have vanished. */
void list_after_fork(void);

bool list_has_name(const char *name);
/* A cache whose slabs can serve this request too, wasting less than a word. */
struct kmem_cache *list_find(size_t size, unsigned int align, slab_flags_t flags);

#endif
