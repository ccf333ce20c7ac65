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
 * Locks: OS_RANK_KMALLOC, caches.family, while the family is made.
 * Callers: src/kmalloc/.
 */
#ifndef SHEAF_KMALLOC_KMALLOC_H
#define SHEAF_KMALLOC_KMALLOC_H

#include <sheaf/kmalloc.h>

#include "cache/block.h"

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

/* --- large.c: blocks above KMALLOC_MAX_CACHE_SIZE -------------------------------------------- */

/* At most `most` bytes; more is an error, reported as `call`'s. */
void *large_alloc(size_t size, gfp_t flags, int node, size_t most, const char *call);

#endif
