/* SPDX-License-Identifier: MIT */
/*
 * kmalloc: memory by size, from a family of caches; larger blocks from page runs and mappings.
 *
 *   size          whose                          found by
 *   0             nobody's: ZERO_SIZE_PTR        its value
 *   1 ... 1 MiB   a cache, kmalloc-8 ... -1024k  the page's descriptor
 *   ... 2 MiB     a run of 2^n pages             the same: kmalloc_large owns it
 *   above         a mapping (page/map.h)         a table by 2 MiB of address
 *
 * kmalloc(), in place or as a call, loads a cache from a table indexed by words of 8 bytes, and
 * pops by its section, if the cache's first word says how. The entry for size 0, and all others
 * before first use, are no caches, but such words that lead to the call. They stay with
 * random_kmalloc_caches, where the caller's address decides, and if one of the caches is a debug
 * cache, which must know the bytes requested. kfree() finds the cache in the page's descriptor. It
 * is not in place, so that programs do not depend on descriptors.
 *
 * Invariants
 *  KMALLOC-K1. An entry of the table is replaced once, by a finished cache, and never again.
 *  KMALLOC-K2. The first thread that needs one of the caches creates all of them, once per process.
 *      If there was no memory for some, the next thread that needs one tries again.
 *  KMALLOC-K3. kmalloc_large has no slabs and no sheaves: `free` is its only call.
 *  KMALLOC-K4. Programs contain only the pointer to the table, its indices by words of 8 bytes, and
 *      its length. Only the library knows sizes and caches.
 *
 * Locks: OS_RANK_KMALLOC, caches.family, while the family is created. Callers: src/kmalloc/.
 */
#ifndef SHEAF_KMALLOC_KMALLOC_H
#define SHEAF_KMALLOC_KMALLOC_H

#include <sheaf/kmalloc.h>

#include "cache/block.h"
#include "cache/calls.h"

#define KMALLOC_PARTITIONS 16
#define KMALLOC_STEP	   2048
#define KMALLOC_FINE	   ((size_t)32 << 10)

/*
 * The sizes: previous size, size. Sizes above 8 are multiples of 16, and the powers of two are
 * among them: the header promises alignment. A test builds the library with other sizes
 * (tests/abi/).
 */
#ifndef KMALLOC_SIZES
#define KMALLOC_FOUR(X, before, a, b, c, d) X(before, a) X(a, b) X(b, c) X(c, d)
#define KMALLOC_SIZES(X)                                                                           \
	KMALLOC_FOUR(X, 0, 8, 16, 32, 48)                                                          \
	X(48, 64)                                                                                  \
	KMALLOC_FOUR(X, 64, 80, 96, 112, 128)                                                      \
	KMALLOC_FOUR(X, 128, 160, 192, 224, 256)                                                   \
	KMALLOC_FOUR(X, 256, 320, 384, 448, 512)                                                   \
	KMALLOC_FOUR(X, 512, 640, 768, 896, 1024)                                                  \
	KMALLOC_FOUR(X, 1024, 1280, 1536, 1792, 2048)                                              \
	KMALLOC_FOUR(X, 2048, 2560, 3072, 3584, 4096)                                              \
	KMALLOC_FOUR(X, 4096, 5120, 6144, 7168, 8192)
/*
 * Sizes above those that programs look up: multiples of KMALLOC_STEP. Above KMALLOC_FINE a block
 * has a slab of its own and gets its pages when it touches them, so finer classes would save
 * addresses only.
 */
#define KMALLOC_LARGER(X)                                                                          \
	KMALLOC_FOUR(X, 8192, 10240, 12288, 14336, 16384)                                          \
	KMALLOC_FOUR(X, 16384, 20480, 24576, 28672, 32768)                                         \
	KMALLOC_FOUR(X, 32768, 65536, 131072, 262144, 524288)                                      \
	X(524288, 1048576)
#define KMALLOC_LARGEST KMALLOC_MAX_CACHE_SIZE
#endif

/* Caches are numbered by size; 0 is the entry for size 0. */
#define KMALLOC_NUMBER(before, size) KMALLOC_##size,
enum {
	KMALLOC_ZERO,
	KMALLOC_SIZES(KMALLOC_NUMBER) KMALLOC_LARGER(KMALLOC_NUMBER) KMALLOC_CACHES
};

/* Bytes by index; [0] is 0. */
extern const uint32_t kmalloc_sizes[KMALLOC_CACHES];
/* Index by words of 8 bytes; above SHEAF_KMALLOC_WORDS of them, by steps. */
extern const uint8_t kmalloc_index_of[SHEAF_KMALLOC_WORDS + 1];
extern const uint8_t kmalloc_larger_index[KMALLOC_LARGEST / KMALLOC_STEP + 1];

static inline unsigned int kmalloc_index(size_t size)
{
	return size <= 8 * SHEAF_KMALLOC_WORDS
		       ? kmalloc_index_of[(size + 7) >> 3]
		       : kmalloc_larger_index[(size + KMALLOC_STEP - 1) / KMALLOC_STEP];
}

/* Create one cache of a family: PREFIX-SIZE. Returns NULL if there is no memory. Reports are
 * deferred. */
struct kmem_cache *kmalloc_make(const char *prefix, unsigned int index,
				const struct kmem_cache_args *args, slab_flags_t flags);

/* Allocate up to `most` bytes for the code at `caller`, on this node or NUMA_NO_NODE; more is an
 * error, reported with the name `call`. */
void *kmalloc_most(size_t size, gfp_t flags, int node, size_t most, const char *call,
		   const void *caller);

static inline void *kmalloc_for(size_t size, gfp_t flags, int node, const void *caller)
{
	return kmalloc_most(size, flags, node, KMALLOC_MAX_SIZE, "kmalloc", caller);
}

/* As kmalloc_for(), from this cache, which is a debug cache. */
void *kmalloc_checked(struct kmem_cache *s, size_t size, gfp_t flags, int node);

/* The cache of this index for the code at `caller`, and in further turns, 1 and so on, those of the
 * other partitions; NULL: there is none, or the family does not exist yet. For a charged request
 * there is one at most. */
struct kmem_cache *kmalloc_cache_made(unsigned int index, const void *caller, gfp_t flags,
				      unsigned int turn);

/* Is this a cache of the family, and not of a separate set (kmem_buckets)? */
bool kmalloc_is_of_family(const struct kmem_cache *s);

/* --- large.c: blocks above KMALLOC_MAX_CACHE_SIZE -------------------------------------------- */

/* As kmalloc_most(). */
void *large_alloc(size_t size, gfp_t flags, int node, size_t most, const char *call);
/* A block for the bytes of a mapping that grows from `old` bytes: one that waits, if a copy costs
 * less than new pages. NULL: there is none. */
void *large_reuse(size_t old, size_t size, gfp_t flags);
/* Resize a mapping to a size that needs one, too, without copying it; NULL: it stays as it is. */
void *large_resize(const void *block, size_t size, gfp_t flags);

#endif
