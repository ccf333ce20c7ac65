/* SPDX-License-Identifier: MIT */
/*
 * What a pointer is: an object of a cache, a run of pages or a mapping.
 *
 *   object     in a slab: the page's descriptor names its cache
 *   run        of 2^n pages, up to 2 MiB: the descriptors name kmalloc_large
 *   mapping    above that: in a table by 2 MiB of address (page/map.h)
 *
 * Callers: src/cache/ and the layers above.
 */
#ifndef SHEAF_CACHE_BLOCK_H
#define SHEAF_CACHE_BLOCK_H

#include "cache/cache.h"
#include "rcu/any.h"

/* --- large.c ----------------------------------------------------------------------------------- */

/* Not on the list of caches, and without a handle: nothing can be pushed to it. */
extern struct kmem_cache kmalloc_large;

/* A run, or where there is none a mapping, unless it would be on a node that was not asked for. `size` is
 * rounded up. NULL: no memory. */
void *large_take(size_t size, gfp_t flags, unsigned int node);
/* Free a run; one that is none, or freed already, is reported later. */
void large_free(void *block);
/* Bytes that a block of so many has. */
size_t large_roundup(size_t size);
/* Bytes of this run. */
size_t large_size(const struct slab *run);
/* Bytes of all runs. */
size_t large_bytes(void);

/* --- block.c ----------------------------------------------------------------------------------- */

enum block_kind {
	BLOCK_NONE,    /* NULL, ZERO_SIZE_PTR, or no memory of ours */
	BLOCK_OBJECT,  /* in a slab of `cache` */
	BLOCK_RUN,     /* in a page run */
	BLOCK_MAPPING, /* in a mapping */
};

/* What a pointer is. */
struct block {
	enum block_kind kind;
	struct kmem_cache *cache; /* of an object, or of a run: &kmalloc_large */
	char *start;		  /* first address of the object, run or mapping */
	size_t size;		  /* bytes that can be used from the start on */
};

struct block block_of(const void *pointer);

/* Free any pointer of ours; NULL and ZERO_SIZE_PTR are allowed. Reports name `call`, and are kept. */
void cache_free_any(const void *pointer, const char *call);
/* Each of these, objects of one cache together as far as they come together. In bulk.c. */
void cache_free_by_owner(size_t n, void **p, const char *call);
/* The same for pointers that have waited for a grace period. */
extern const struct rcu_any_ops block_rcu_ops;
/* Say, later, what is wrong with a pointer that is no block's beginning. */
void cache_report_wrong(const void *pointer, const char *call);

#endif
