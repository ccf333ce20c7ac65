/* SPDX-License-Identifier: MIT */
/*
 * The list of caches, with lookups by name, and by layout for sharing.
 *
 *   handle --name--> entry: | handle | prev | in the index of names | of layouts | the name |
 *
 * A handle is full (cache.h), so the list's other fields are stored in front of the cache's name.
 *
 * Invariants
 *  LIST-L1. The index of names has the caches that may be used: those with nr_names > 0.
 *  LIST-L2. The index of layouts has those caches of LIST-L1 that may be shared.
 *  LIST-L3. A pinned cache stays on the list, so a thread can read all its pages without the
 *      lock. A cache that is being destroyed (`ending`) is no longer pinned, unless it is leaked.
 *      Its name is freed last, because reports use it.
 *
 * Locks: OS_RANK_CACHES, held by the callers except where noted. Callers: src/cache/,
 * src/control/, src/stats/.
 */
#ifndef SHEAF_CACHE_LIST_H
#define SHEAF_CACHE_LIST_H

#include "cache/cache.h"

/* Flags that must be the same in caches that are shared. */
#define LIST_FLAGS (SLAB_RECLAIM_ACCOUNT | SLAB_ACCOUNT | SLAB_NO_SHEAVES | DEBUG_SAMPLE)

/* Give the cache this name. Returns false if there is no memory. */
bool list_name(struct kmem_cache *s, const char *name);
/* For a cache that is on no list; it has no name afterwards. Needs no lock. */
void list_forget_name(struct kmem_cache *s);

/* Add a cache whose layout is known. The list begins with the youngest cache. */
void list_add(struct kmem_cache *s);
/* From now on no other cache is merged with it. */
void list_keep_apart(struct kmem_cache *s);
/* From now on no lookup finds it, and no thread pins it. */
void list_hide(struct kmem_cache *s);
/* Of a hidden cache that no thread pins. */
void list_remove(struct kmem_cache *s);
/* These are for a hidden cache, without the lock: wait until no thread pins it; then let threads
 * pin it again. */
void list_wait_unpinned(struct kmem_cache *s);
void list_show(struct kmem_cache *s);

/* These take the lock. Return the next cache on the list after s, or the first one for NULL. It is
 * pinned, and s is unpinned. A caller that stops before the end must unpin the last one. */
struct kmem_cache *list_next(struct kmem_cache *s);
/* As list_next(), skipping caches that are not wanted. */
struct kmem_cache *list_next_if(struct kmem_cache *s, bool (*wanted)(const struct kmem_cache *s));
/* The cache of the bit with this number (MARKS-F5), pinned. NULL: it is being destroyed, or was; or
 * *lost: it is not known. */
struct kmem_cache *list_pin_marked(uint64_t number, bool *lost);
/* False, after a report: it is NULL or being destroyed. */
bool list_pin(struct kmem_cache *s, const char *call);
void list_unpin(struct kmem_cache *s);
/* In a forked child, by its only thread: threads that pinned caches have vanished. */
void list_after_fork(void);

/*
 * One visit after the other of every cache that may be used, across calls: begin; the cache to
 * visit now, or NULL at the end; this one was visited. Caches may come and go in between. Each
 * visitor, a number below LIST_VISITORS, has its own place in the list.
 */
#define LIST_VISITORS 2
void list_visit_first(unsigned int visitor);
struct kmem_cache *list_visit(unsigned int visitor);
void list_visited(unsigned int visitor);
/* A word of the cache for one of the visitors. */
uint64_t *list_print(struct kmem_cache *s);

bool list_has_name(const char *name);
/* A cache whose slabs can also serve this request and waste less than a word per object. */
struct kmem_cache *list_find(size_t size, unsigned int align, slab_flags_t flags);

#endif
