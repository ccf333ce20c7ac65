/* SPDX-License-Identifier: MIT */
/*
 * kmalloc: memory by size, from families of caches; larger blocks are mappings.
 *
 *   size          whose                          found by
 *   0             nobody's: ZERO_SIZE_PTR        its value
 *   1 ... 1 MiB   a cache, kmalloc-8 ... -1024k  the page's descriptor
 *   above         a mapping (page/map.h)         a table by 2 MiB of address
 *
 * A family (kmem_buckets) has a cache for each size class, made when it is first needed. kmalloc()
 * has one for charged blocks and one for others, or with random_kmalloc_caches=N 2 N for others:
 * the partitions. Programs may have more (buckets.c).
 *
 * A token, a number of 64 bits, selects a partition: equal tokens the same one, others one by a
 * secret of the process. It is the compiler's number for the type of the block, in the upper half
 * if the type contains pointers (clang 22: __builtin_infer_alloc_token, as with its option
 * -fsanitize=alloc-token; one below another maximum M is to be multiplied by 2^64 / M). Of a call
 * that knows no type it is the caller's address, which is in the lower half.
 *
 * kmalloc(), in place or as a call, loads a cache from a table indexed by words of 8 bytes, and
 * pops by its section, if the cache's first word says how. The entries for size 0 and for caches
 * that do not exist yet are no caches, but such words that lead to the call. So are, always, those
 * of debug caches, which must know the bytes requested, and all with random_kmalloc_caches. kfree()
 * finds the cache in the page's descriptor. It is not in place, so that programs do not depend on
 * descriptors.
 *
 * Invariants
 *  KMALLOC-K1. An entry of the table is replaced once, by a finished cache, and never again.
 *  KMALLOC-K2. A cache of a family is made once: by the first thread that needs it, or if there was
 *      no memory, by the next one.
 *  KMALLOC-K3. Programs contain only the pointer to the table, its indices by words of 8 bytes, and
 *      its length. Only the library knows sizes and caches.
 *  KMALLOC-K4. If there are partitions, tokens of the two halves never select the same one, and
 *      krealloc() leaves a block in its partition.
 *
 * Locks: OS_RANK_KMALLOC, caches.family, while a cache of a family is made. Callers: src/kmalloc/.
 */
#ifndef SHEAF_KMALLOC_KMALLOC_H
#define SHEAF_KMALLOC_KMALLOC_H

#include <sheaf/kmalloc.h>

#include "cache/block.h"
#include "cache/calls.h"

#define KMALLOC_PARTITIONS 16 /* at most, for each half of the tokens */
#define KMALLOC_LARGEST	   KMALLOC_MAX_CACHE_SIZE

/* --- size classes ----------------------------------------------------------------------------- */

/*
 * The size classes of a family: `least` bytes (8 or 16), then multiples of 16, then for each
 * doubling 2^fine classes, and from `coarse_from` bytes on 2^coarse; at most 8. So a class is a
 * multiple of a power of two that is at least an eighth of it, and all powers of two are classes:
 * the header promises their alignment.
 */
struct kmalloc_sizes {
	uint32_t least, coarse_from;
	uint8_t fine, coarse;
};

/* Those of kmalloc(). Above 32 KiB a block has a slab of its own, 2^n pages, which get memory when
 * the block touches them: more classes would save nothing, and each would keep blocks of its own. A
 * test builds the library with other ones (tests/abi/). */
#ifndef KMALLOC_LEAST
#define KMALLOC_LEAST 8 /* 16 in libsheaf-malloc.so: malloc() promises more alignment */
#endif
#ifndef KMALLOC_SIZES
#define KMALLOC_SIZES                                                                              \
	{                                                                                          \
		.least = KMALLOC_LEAST, .coarse_from = 32 << 10, .fine = 3, .coarse = 0            \
	}
#endif
static const struct kmalloc_sizes kmalloc_sizes = KMALLOC_SIZES;

#define KMALLOC_STEP 16u /* between small classes */
#define KMALLOC_FINE 3	 /* classes are numbered as if each doubling had 2^KMALLOC_FINE */
#define KMALLOC_EACH (1u << KMALLOC_FINE)
/* Classes of 8 bytes, of 16 to 128, and for each doubling up to 1 MiB. */
#define KMALLOC_CLASSES (1 + KMALLOC_EACH * (1 + 13))

_Static_assert(KMALLOC_LARGEST == (size_t)KMALLOC_STEP * KMALLOC_EACH << 13, "the last class");

static inline unsigned int kmalloc_log2(size_t n)
{
	return 63 - (unsigned int)__builtin_clzll(n);
}

/* The bytes of the class for this size, which is not 0. */
static inline size_t kmalloc_class(const struct kmalloc_sizes *sizes, size_t size)
{
	unsigned int each = size > sizes->coarse_from ? sizes->coarse : sizes->fine;
	size_t step;

	if (size <= sizes->least)
		return sizes->least;
	step = (size_t)1 << kmalloc_log2(size - 1) >> each;
	if (step < KMALLOC_STEP)
		step = KMALLOC_STEP;
	return (size + step - 1) & -step;
}

/* The number of that class. */
static inline unsigned int kmalloc_index(const struct kmalloc_sizes *sizes, size_t size)
{
	size_t last = kmalloc_class(sizes, size) - 1;
	unsigned int shift = kmalloc_log2(last | KMALLOC_STEP * KMALLOC_EACH) - KMALLOC_FINE;

	if (last < KMALLOC_STEP - 1)
		return 0;
	return 1 + (unsigned int)(last >> shift) + KMALLOC_EACH * (shift - 4);
}

/* --- families --------------------------------------------------------------------------------- */

struct sheaf_kmem_buckets {
	struct kmalloc_sizes sizes;
	kmem_buckets *charged; /* of kmalloc(): the family for charged blocks; NULL: a program's */
	slab_flags_t flags;
	struct kmem_cache_args args;		    /* of each cache, except for the alignment */
	char prefix[112];			    /* of the caches' names */
	struct kmem_cache *caches[KMALLOC_CLASSES]; /* by number; NULL: not made */
};

/* The cache of this number, or NULL, also if its blocks are not as well aligned as those of a cache
 * for this size. */
static inline struct kmem_cache *buckets_made(kmem_buckets *set, unsigned int index, size_t size)
{
	struct kmem_cache *s = os_load_acquire(&set->caches[index]);

	return s && s->sheaf.slab.align >= (size & -size) ? s : NULL;
}

/*
 * The cache of this family for this size, made if necessary. If there is no memory for it, or a
 * call that should not wait would wait for another thread, one of the next KMALLOC_EACH numbers.
 * NULL: there is none, and no memory.
 */
struct kmem_cache *buckets_cache(kmem_buckets *set, size_t size, gfp_t flags);
/* The flags of a request from this family, or NULL: a program's may charge all of its blocks. */
static inline gfp_t buckets_flags(const kmem_buckets *set, gfp_t flags)
{
	return set && !set->charged && set->flags & SLAB_ACCOUNT ? flags | __GFP_ACCOUNT : flags;
}

/* Allocate from a family; up to KMALLOC_LARGEST bytes, not 0. */
void *buckets_alloc(kmem_buckets *set, size_t size, gfp_t flags, int node);

/* --- kmalloc.c -------------------------------------------------------------------------------- */

/* Initialise the library at its first use, and kmalloc()'s families. False: there is no memory. */
bool kmalloc_ready(gfp_t flags);
/* A cache of a family was made: if kmalloc() may take it for each call, enter it into the table. */
void kmalloc_made(kmem_buckets *set, struct kmem_cache *s);

/* What a public call allocates at most. More is an error, whose report names the call, and one that
 * allocates more. */
struct kmalloc_call {
	char name[20], larger[20];
	size_t most;
};
extern const struct kmalloc_call kmalloc_most;
extern const struct kmalloc_call kvmalloc_most;

/* A block of this size by the section of its cache. False: call kmalloc_rest(). */
extern struct sheaf_kmalloc_table kmalloc_table __attribute__((visibility("hidden")));
static OS_ALWAYS_INLINE bool kmalloc_pop(size_t size, gfp_t flags, void **block)
{
	return os_likely(size <= 8 * SHEAF_KMALLOC_WORDS) &&
	       os_likely(!(flags & ~SHEAF_GFP_PLAIN)) &&
	       os_likely(
		       cache_pop(os_load_acquire(&kmalloc_table.by_words[(size + 7) >> 3]), block));
}
void *kmalloc_rest(size_t size, gfp_t flags, uint64_t token, const struct kmalloc_call *call);

/* Allocate on this node or NUMA_NO_NODE: from this family; for a block of kmalloc(), that of the
 * block that it replaces, or NULL: the partition of the token. */
void *kmalloc_from(kmem_buckets *set, size_t size, gfp_t flags, int node,
		   const struct kmalloc_call *call, uint64_t token);

static inline void *kmalloc_for(size_t size, gfp_t flags, int node, uint64_t token)
{
	return kmalloc_from(NULL, size, flags, node, &kmalloc_most, token);
}

/* The token of a call by a program. */
#define KMALLOC_CALLER ((uint64_t)(uintptr_t)__builtin_return_address(0))

/* kmalloc()'s family for this token, and in further turns, 1 and so on, the other ones of that half
 * of the tokens; NULL: there are no more. A charged request has one. */
kmem_buckets *kmalloc_set(uint64_t token, gfp_t flags, unsigned int turn);

/* --- kfree.c ---------------------------------------------------------------------------------- */

/* The program asked for so many bytes of this block. */
void kmalloc_tell_size(void *block, size_t size);
/* krealloc() by this call. */
void *kmalloc_resize(const void *block, size_t size, gfp_t flags, const struct kmalloc_call *call,
		     uint64_t token);

/* --- large.c: blocks above KMALLOC_MAX_CACHE_SIZE, and aligned ones --------------------------- */

#define VMALLOC_MOST ((size_t)1 << 47) /* no process has more addresses */

/* Is this no alignment for a block? True after a report. */
bool kmalloc_align_is_wrong(size_t size, size_t align, const char *call);
/* As kmalloc_from(), with this alignment. */
void *kmalloc_aligned(kmem_buckets *set, size_t size, size_t align, gfp_t flags, int node,
		      const struct kmalloc_call *call, uint64_t token);

/* As kmalloc_from(), with this alignment; 1: that of the size. */
void *large_alloc(size_t size, size_t align, gfp_t flags, int node,
		  const struct kmalloc_call *call);
/* A block for the bytes of a large one that grows from `old` bytes: one that waits, if a copy costs
 * less than new pages. NULL: there is none. */
void *large_reuse(size_t old, size_t size, size_t align, gfp_t flags);
/* Resize a mapping to a size that needs one, too, without copying it; if it grows, it moves to this
 * alignment. NULL: it stays as it is. */
void *large_resize(const void *block, size_t size, size_t align, gfp_t flags);

#endif
