/* SPDX-License-Identifier: MIT */
/*
 * The kinds of blocks: an object of a cache, a mapping, or from before the library was ready.
 *
 *   object     in a slab: the page's descriptor names its cache
 *   mapping    too large for a cache: in a table by 2 MiB of address (page/map.h)
 *   boot       from the boot heap of libsheaf-malloc, which has struct boot_heap's calls; the
 *              calls of large blocks serve these, too
 *
 * Callers: src/cache/ and the layers above.
 */
#ifndef SHEAF_CACHE_BLOCK_H
#define SHEAF_CACHE_BLOCK_H

#include "cache/paths.h"
#include "page/map_kept.h"
#include "rcu/any.h"

/* --- large.c ---------------------------------------------------------------------------------- */

/* The name of large blocks in reports and numbers: no cache, and not on their list. */
extern struct kmem_cache kmalloc_large;

/* Allocate a block. `size` is rounded up; `align` is a power of two. Returns NULL if there is no
 * memory. */
void *large_take(size_t size, size_t align, gfp_t flags, unsigned int node);
/* Charge a block that large_take() took for this size; false: a limit is reached. */
bool large_own(void *block, size_t size, gfp_t flags, uint32_t number);
/* The program gives up the block at this address, as by cache_retire(). */
bool large_retire(void *block, const char *call);
/* Free a block that the caller has just retired; or one that was retired before, as far as the
 * caller knows. */
void large_free(void *block);
/* The program has this block for a request of so many bytes: the heap profile draws it. */
void large_sample(void *block, size_t asked);
/* The same block, or one that took its place, is now for so many. */
void large_set_asked(void *block, size_t asked);
/* Take the number of its record in the heap profile, or 0, from the block; put it back. */
uint32_t large_take_record(void *block);
void large_put_record(void *block, uint32_t number);
void large_free_waited(void *block, const char *call);
/* Is it retired, and not free yet? */
bool large_waits(const void *block);
/* The alignment of a block of this size, which is rounded up. */
static inline size_t large_align(size_t size)
{
	size_t align = size & -size;

	return align < KMALLOC_MAX_SIZE ? align : KMALLOC_MAX_SIZE;
}

/* Of all sizes at least; whole pages of any system. */
#define LARGE_STEP ((size_t)64 << 10)

/* Bytes in a block for this size. */
static inline size_t large_roundup(size_t size)
{
	size_t step;

	if (size > MAP_KEPT_MOST)
		return os_round_up(size);
	/* Eight sizes for each doubling, so that a cell can name them (page/map_kept.h). */
	step = ((size_t)1 << 60) >> __builtin_clzll((size - 1) | (LARGE_STEP * 8));
	return (size + step - 1) & ~(step - 1);
}

/* --- block.c ---------------------------------------------------------------------------------- */

enum block_kind {
	BLOCK_NONE,    /* NULL, ZERO_SIZE_PTR, or memory that is not ours */
	BLOCK_OBJECT,  /* in a slab of `cache` */
	BLOCK_MAPPING, /* a mapping */
	BLOCK_BOOT,    /* of the boot heap; only its first address is found */
};

/* For large_retire() and the like, on blocks of a boot heap. */
struct boot_heap {
	size_t (*size)(const void *block); /* of one in use or retired; 0: none begins here */
	bool (*waits)(const void *block);  /* retired */
	bool (*retire)(void *block);
	bool (*free)(void *block); /* a retired one; false: it is none */
};

/* Describes a pointer. */
struct block {
	enum block_kind kind;
	struct kmem_cache *cache; /* the cache of an object */
	char *start;		  /* first address of the object or mapping */
	size_t size;		  /* usable bytes from the start */
};

struct block block_of(const void *pointer);

/* Describe the block in use that begins at this address, for calls that do not free it; with
 * `retired`, it may also wait for a grace period. False after a deferred report: there is none, as
 * far as the library knows (object_is_used()). */
bool cache_find_used(const void *pointer, bool retired, struct block *block, const char *call);

/* Free any pointer of the library; NULL and ZERO_SIZE_PTR are allowed. Reports name `call`, and are
 * deferred. */
void cache_free_any(const void *pointer, const char *call);
/* Free a block, but first clear up to `most` of its bytes. It is cleared when it is no longer the
 * program's and not yet anyone's: an ignored call changes nothing. Reports are deferred. */
void cache_free_cleared(const void *pointer, size_t most, const char *call);
/* The program gives up this object, or, with a cache of NULL, this large block: it is checked,
 * and belongs to the caller, who passes it to cache_free_waited(). False after a deferred report.
 * In kfree_rcu.c. */
bool cache_retire(struct kmem_cache *s, void *object, const char *call);
/* Free each of these pointers, which were retired and whose grace period has passed; consecutive
 * objects of one cache are freed together. In bulk.c. */
void cache_free_waited(size_t n, void **p, const char *call);
/* These free pointers that have waited for a grace period, in that way. */
extern const struct rcu_any_ops block_rcu_ops;
/* Report, later, what is wrong with a pointer that is not the beginning of a block. */
void cache_report_wrong(const void *pointer, const char *call);

/* --- kfree_rcu.c ------------------------------------------------------------------------------ */

/* True if the process has no provider and needs none: retired objects are freed immediately. */
static inline bool cache_has_no_readers(const struct grace *grace)
{
	return !grace && os_load_acquire(&caches.no_readers);
}

/*
 * Let the cache retire objects with this provider, for which rcu_any_init() was called. Never
 * waits.
 */
bool cache_begin_rcu(struct kmem_cache *s, struct grace *grace);
/* The provider whose grace periods this object waits for; NULL: it need not wait for any. Ends the
 * program if it should have one. */
struct grace *cache_grace(struct kmem_cache *s, void *object);
/* From now on examine retired objects of this cache when their grace period has passed. */
void cache_see_passed(struct kmem_cache *s);

#endif
