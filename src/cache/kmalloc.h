/* SPDX-License-Identifier: MIT */
/*
 * kmalloc: memory by size, from a family of 13 caches; larger blocks from page runs and mappings.
 *
 *   size          whose                          found by
 *   0             nobody's: ZERO_SIZE_PTR        its value
 *   1 ... 8192    a cache, kmalloc-8 ... -8k     the page's descriptor
 *   ... 2 MiB     a run of 2^n pages             the same: kmalloc_large owns it
 *   above         a mapping (page/map.h)         a table by 2 MiB of address
 *
 * kmalloc(), in the header, loads a cache from a table by words of 8 bytes, and calls what that begins
 * with. Before first use the table's entries are not caches but only such calls, which make the family and
 * go on with it; so are, for ever, those of size 0, and all with random_kmalloc_caches. Hence no test of it
 * on the fast path. kfree() finds the cache by the page's descriptor, and calls what it begins with, too. It
 * is a call and not inlined, so that no program knows descriptors: three more instructions.
 *
 * Invariants
 *  K1. An entry of the table is replaced once, by a cache that is made, and never again.
 *  K2. The caches are made one time for the process, by whoever needs one first. Those that could
 *      not be made for want of memory are tried again by the next who needs one.
 *  K3. kmalloc_large has no slabs and no sheaves: of its calls only `free` is there.
 *  K4. Programs have nothing built in but the pointer to the table, that it goes by words of 8 bytes, and
 *      how many there are at least. Sizes and caches are the library's alone.
 *
 * Locks: OS_RANK_KMALLOC while the family is made.
 * Callers: src/cache/, src/stats/.
 */
#ifndef SHEAF_CACHE_KMALLOC_H
#define SHEAF_CACHE_KMALLOC_H

#include <sheaf/kmalloc.h>

#include "cache/cache.h"

#define KMALLOC_PARTITIONS 16

/*
 * The sizes: index, the size before, the size. Those above 8 are multiples of 16, and the powers of two are
 * among them: the header promises alignment. A test builds the library with other ones (tests/abi/).
 */
#ifndef KMALLOC_SIZES
#define KMALLOC_SIZES(X)                                                                           \
	X(1, 0, 8)                                                                                 \
	X(2, 8, 16)                                                                                \
	X(3, 16, 32)                                                                               \
	X(4, 32, 64)                                                                               \
	X(5, 64, 96)                                                                               \
	X(6, 96, 128)                                                                              \
	X(7, 128, 192)                                                                             \
	X(8, 192, 256)                                                                             \
	X(9, 256, 512)                                                                             \
	X(10, 512, 1024)                                                                           \
	X(11, 1024, 2048)                                                                          \
	X(12, 2048, 4096)                                                                          \
	X(13, 4096, 8192)
#define KMALLOC_CACHES	14 /* and the one of size 0 */
#define KMALLOC_LARGEST KMALLOC_MAX_CACHE_SIZE
#endif

/* Bytes by index; [0] is 0. */
extern const uint16_t kmalloc_sizes[KMALLOC_CACHES];
/* Index by words of 8 bytes. */
extern const uint8_t kmalloc_index_of[KMALLOC_LARGEST / 8 + 1];

static inline unsigned int kmalloc_index(size_t size)
{
	return kmalloc_index_of[(size + 7) >> 3];
}

/* One cache of a family: PREFIX-SIZE. NULL: no memory. Reports are kept. */
struct kmem_cache *kmalloc_make(const char *prefix, unsigned int index,
				const struct kmem_cache_args *args, slab_flags_t flags);

/* Memory of any size for the code at `caller`, on this node or NUMA_NO_NODE. */
void *kmalloc_for(size_t size, gfp_t flags, int node, const void *caller);

/* The cache of this index, for the code at `caller`; NULL if the family is not made yet. */
struct kmem_cache *kmalloc_cache_made(unsigned int index, const void *caller);

/* Free what every cache of the family keeps: for who needs pages. */
void kmalloc_reclaim(void);

/* Around fork(). */
void kmalloc_lock(void);
void kmalloc_unlock(void);

/* --- large.c: blocks above KMALLOC_MAX_CACHE_SIZE -------------------------------------------- */

/* Not on the list of caches, and without a handle: nothing can be pushed to it. */
extern struct kmem_cache kmalloc_large;

/* At most `most` bytes; more is an error, reported as `call`'s. */
void *large_alloc(size_t size, gfp_t flags, int node, size_t most, const char *call);
/* Free a run; one that is none, or freed already, is reported later. */
void large_free(void *block);
/* Bytes that a block of so many has. */
size_t large_roundup(size_t size);
/* Bytes of this run. */
size_t large_size(const struct slab *run);
/* Give runs that CPUs keep for the next one back. */
void large_trim(void);
/* Bytes of all runs. */
size_t large_bytes(void);

/* --- kfree.c ----------------------------------------------------------------------------------- */

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
/* Say, later, what is wrong with a pointer that is no block's beginning. */
void cache_report_wrong(const void *pointer, const char *call);

#endif
