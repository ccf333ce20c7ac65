/* SPDX-License-Identifier: MIT */
/*
 * Memory by size, with the names of the Linux kernel: caches for small sizes, page runs and mappings
 * for large ones. Included by <sheaf/slab.h>.
 *
 *     char *text = kmalloc(length + 1, GFP_KERNEL);
 *     kfree(text);
 *
 * Caches kmalloc-8, -16, -32, -64, -96, -128, -192, -256, -512, -1k, -2k, -4k and -8k, made at first
 * use, each with sheaves. A block of 16 bytes or more is aligned to at least 16, a smaller one to 8, and
 * one whose size is a power of two to its size. That is a promise; the sizes of the caches are none.
 *
 * What is said in <sheaf/slab.h> of threads, signals, fork and errno holds here, too.
 */
#ifndef SHEAF_KMALLOC_H
#define SHEAF_KMALLOC_H

#include <sheaf/slab.h>
#include <stdarg.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a request for 0 bytes returns: not NULL, to be freed as any block, never to be used. */
#define ZERO_SIZE_PTR SHEAF_ADDRESS(void *, 16)

/* True for NULL and ZERO_SIZE_PTR. */
#define ZERO_OR_NULL_PTR(pointer)                                                                  \
	(SHEAF_ADDRESS(uintptr_t, SHEAF_CAST(const volatile void *, pointer)) <= 16)

/* Bytes up to which this version's caches serve, and up to which kmalloc() does. Beyond: kvmalloc(), to
 * INT_MAX. */
#define KMALLOC_MAX_CACHE_SIZE SHEAF_CAST(size_t, 8192)
#define KMALLOC_MAX_SIZE       (SHEAF_CAST(size_t, 4) << 20)

/*
 * Private: read by kmalloc() below and by nobody else. Who serves a size, by the number of words of 8
 * bytes that it takes, for up to SHEAF_KMALLOC_WORDS words at least. Programs have built in no sizes of
 * caches, nor how many there are: those may differ from library to library. They know the table by a
 * pointer, which never changes: an executable may be given a copy of what it refers to (a COPY
 * relocation), and what is copied can never grow.
 */
#define SHEAF_KMALLOC_WORDS 1024
extern struct kmem_cache **const sheaf_kmalloc_by_words;

/* kmalloc() of a size beyond those words. */
SHEAF_CHECK_RESULT void *__kmalloc_large(size_t size, gfp_t flags) SHEAF_SYMBOL(__kmalloc_large);

/*
 * At least size bytes, or NULL if memory is out. Undefined content; with __GFP_ZERO zeroed up to the
 * size that ksize() tells. 0 bytes: ZERO_SIZE_PTR. Above KMALLOC_MAX_SIZE: NULL, and a line unless
 * __GFP_NOWARN. The common case up to 8192 bytes is that of kmem_cache_alloc(); beyond it takes a
 * lock.
 */
static inline SHEAF_CHECK_RESULT void *kmalloc(size_t size, gfp_t flags)
{
	if (__builtin_expect(size > 8 * SHEAF_KMALLOC_WORDS, 0))
		return __kmalloc_large(size, flags);
	return kmem_cache_alloc(
		__atomic_load_n(&sheaf_kmalloc_by_words[(size + 7) >> 3], __ATOMIC_ACQUIRE), flags);
}

/* The same, zeroed. */
static inline SHEAF_CHECK_RESULT void *kzalloc(size_t size, gfp_t flags)
{
	return kmalloc(size, flags | __GFP_ZERO);
}

/* n * size bytes; NULL if the product overflows. */
static inline SHEAF_CHECK_RESULT void *kmalloc_array(size_t n, size_t size, gfp_t flags)
{
	size_t bytes;

	return __builtin_mul_overflow(n, size, &bytes) ? NULL : kmalloc(bytes, flags);
}

/* The same, zeroed. */
static inline SHEAF_CHECK_RESULT void *kcalloc(size_t n, size_t size, gfp_t flags)
{
	return kmalloc_array(n, size, flags | __GFP_ZERO);
}

/*
 * kmalloc() on this node if it has memory, else any; with __GFP_THISNODE that node's or NULL (above
 * 2 MiB it is a preference in any case). NUMA_NO_NODE: as kmalloc().
 */
SHEAF_CHECK_RESULT void *kmalloc_node(size_t size, gfp_t flags, int node)
	SHEAF_SYMBOL(kmalloc_node);

/* The same, zeroed. */
static inline SHEAF_CHECK_RESULT void *kzalloc_node(size_t size, gfp_t flags, int node)
{
	return kmalloc_node(size, flags | __GFP_ZERO, node);
}

/* kmalloc_array() and kcalloc() on this node. */
static inline SHEAF_CHECK_RESULT void *kmalloc_array_node(size_t n, size_t size, gfp_t flags,
							  int node)
{
	size_t bytes;

	return __builtin_mul_overflow(n, size, &bytes) ? NULL : kmalloc_node(bytes, flags, node);
}

static inline SHEAF_CHECK_RESULT void *kcalloc_node(size_t n, size_t size, gfp_t flags, int node)
{
	return kmalloc_array_node(n, size, flags | __GFP_ZERO, node);
}

/*
 * Make a block size bytes large: in place if it has them already, else a new block with the old
 * one's content, and the old one is freed. If a new block would have half the bytes or less
 * (kmalloc_size_roundup()), it moves there, too, unless there is no memory at once: a smaller size never
 * fails. Returns NULL, and leaves the block as it is, if memory is out. A block of NULL or ZERO_SIZE_PTR: as
 * kmalloc(). A size of 0: as kfree(), and ZERO_SIZE_PTR is returned. Kernel: never moves to a smaller one.
 * __GFP_ZERO: bytes beyond the old content read zero if every earlier call for this block, too, had
 * the flag.
 */
SHEAF_CHECK_RESULT void *krealloc(const void *block, size_t size, gfp_t flags)
	SHEAF_SYMBOL(krealloc);

/* The same for n * size bytes; NULL if the product overflows. */
static inline SHEAF_CHECK_RESULT void *krealloc_array(void *block, size_t n, size_t size,
						      gfp_t flags)
{
	size_t bytes;

	return __builtin_mul_overflow(n, size, &bytes) ? NULL : krealloc(block, bytes, flags);
}

/*
 * Free a block of any call of this header, or an object of any cache. NULL and ZERO_SIZE_PTR are
 * allowed. A pointer that is none of ours is reported and left alone; one that is free already, or
 * points into a block, is found as by kmem_cache_free(). The common case takes one restartable
 * section.
 */
void kfree(const void *block) SHEAF_SYMBOL(kfree);

/* kfree() of p[0] ... p[n-1], blocks of one size together as far as they come together. O(n). */
static inline void kfree_bulk(size_t n, void **p)
{
	kmem_cache_free_bulk(NULL, n, p);
}

/*
 * The same, its content overwritten before, all that ksize() tells. What is no block, or points into one,
 * is reported and left alone, neither overwritten nor freed.
 */
void kfree_sensitive(const void *block) SHEAF_SYMBOL(kfree_sensitive);

/* Bytes that can be used of a block; 0 of NULL and ZERO_SIZE_PTR. O(1), no lock. */
size_t ksize(const void *block) SHEAF_SYMBOL(ksize);

/* What ksize() would tell of kmalloc(size); size itself if kmalloc() would fail. O(1). */
size_t kmalloc_size_roundup(size_t size) SHEAF_SYMBOL(kmalloc_size_roundup);

/* --- larger than kmalloc() ----------------------------------------------------------------------
 */

/*
 * kmalloc_node() and kmalloc() for up to INT_MAX bytes. Those above 2 MiB are mappings of their own,
 * aligned to 2 MiB: system calls, and O(size / 2 MiB), however many there are.
 */
SHEAF_CHECK_RESULT void *kvmalloc_node(size_t size, gfp_t flags, int node)
	SHEAF_SYMBOL(kvmalloc_node);

static inline SHEAF_CHECK_RESULT void *kvmalloc(size_t size, gfp_t flags)
{
	if (__builtin_expect(size <= 8 * SHEAF_KMALLOC_WORDS, 1))
		return kmalloc(size, flags);
	return kvmalloc_node(size, flags, NUMA_NO_NODE);
}

static inline SHEAF_CHECK_RESULT void *kvzalloc(size_t size, gfp_t flags)
{
	return kvmalloc(size, flags | __GFP_ZERO);
}

/* n * size bytes; NULL if the product overflows. */
static inline SHEAF_CHECK_RESULT void *kvmalloc_array(size_t n, size_t size, gfp_t flags)
{
	size_t bytes;

	return __builtin_mul_overflow(n, size, &bytes) ? NULL : kvmalloc(bytes, flags);
}

static inline SHEAF_CHECK_RESULT void *kvcalloc(size_t n, size_t size, gfp_t flags)
{
	return kvmalloc_array(n, size, flags | __GFP_ZERO);
}

/* kvmalloc_array() and kvcalloc() on this node, as by kmalloc_node(). */
static inline SHEAF_CHECK_RESULT void *kvmalloc_array_node(size_t n, size_t size, gfp_t flags,
							   int node)
{
	size_t bytes;

	return __builtin_mul_overflow(n, size, &bytes) ? NULL : kvmalloc_node(bytes, flags, node);
}

static inline SHEAF_CHECK_RESULT void *kvcalloc_node(size_t n, size_t size, gfp_t flags, int node)
{
	return kvmalloc_array_node(n, size, flags | __GFP_ZERO, node);
}

/* krealloc() for blocks of kvmalloc(). */
SHEAF_CHECK_RESULT void *kvrealloc(const void *block, size_t size, gfp_t flags)
	SHEAF_SYMBOL(kvrealloc);

/* As kfree(). */
static inline void kvfree(const void *block)
{
	kfree(block);
}

/*
 * The same, its first size bytes overwritten before: at most what ksize() tells. What is no block, or
 * points into one, is reported and left alone.
 */
void kvfree_sensitive(const void *block, size_t size) SHEAF_SYMBOL(kvfree_sensitive);

/*
 * Whole pages: at least size bytes, as many as there is room for, aligned to 4096. Of NULL for 0 bytes, as
 * if memory were out. To be freed by vfree() or any other call of its kind. Up to 2 MiB they are runs of 2^n
 * pages, beyond as for kvmalloc(). vmalloc() and vzalloc(): with GFP_KERNEL. Kernel: the pages need not be
 * neighbours in physical memory; here nobody can tell.
 */
SHEAF_CHECK_RESULT void *__vmalloc(size_t size, gfp_t flags) SHEAF_SYMBOL(__vmalloc);

static inline SHEAF_CHECK_RESULT void *vmalloc(size_t size)
{
	return __vmalloc(size, GFP_KERNEL);
}

static inline SHEAF_CHECK_RESULT void *vzalloc(size_t size)
{
	return __vmalloc(size, GFP_KERNEL | __GFP_ZERO);
}

/* As kfree(). */
static inline void vfree(const void *block)
{
	kfree(block);
}

/* --- any context --------------------------------------------------------------------------------
 */

/*
 * At least size bytes in any context, as by kmem_cache_alloc_nolock(): from the cache of that size, else
 * from the next larger one. The node is preferred; NUMA_NO_NODE: this CPU's. NULL if neither has any at
 * once, if nobody has called kmalloc() yet, and above KMALLOC_MAX_CACHE_SIZE; 0 bytes: ZERO_SIZE_PTR.
 * Of gfp, __GFP_ZERO matters. Async-signal-safe, O(nodes).
 */
SHEAF_CHECK_RESULT void *kmalloc_nolock(size_t size, gfp_t gfp, int node)
	SHEAF_SYMBOL(kmalloc_nolock);

/* Free a block of a cache in any context, as by kmem_cache_free_nolock(), whichever call it is from. NULL
 * and ZERO_SIZE_PTR are allowed; blocks above KMALLOC_MAX_CACHE_SIZE are reported and left alone. */
void kfree_nolock(const void *block) SHEAF_SYMBOL(kfree_nolock);

/* --- copies -------------------------------------------------------------------------------------
 */

/* A copy of a text, to be freed by kfree(); of NULL, NULL. kstrndup(): of at most max bytes. */
SHEAF_CHECK_RESULT char *kstrdup(const char *text, gfp_t flags) SHEAF_SYMBOL(kstrdup);
SHEAF_CHECK_RESULT char *kstrndup(const char *text, size_t max, gfp_t flags) SHEAF_SYMBOL(kstrndup);

/*
 * kstrdup() that copies no constant: a text in a part of the program's own file that cannot be written, such
 * as most literals in it, is returned as it is. Texts of shared libraries are copied: they may be
 * unloaded. To be freed by kfree_const() only, which leaves constants alone. O(length).
 */
SHEAF_CHECK_RESULT const char *kstrdup_const(const char *text, gfp_t flags)
	SHEAF_SYMBOL(kstrdup_const);
void kfree_const(const void *text) SHEAF_SYMBOL(kfree_const);

/* A copy of size bytes; kmemdup_nul(): and a zero byte behind them. */
SHEAF_CHECK_RESULT void *kmemdup(const void *from, size_t size, gfp_t flags) SHEAF_SYMBOL(kmemdup);
SHEAF_CHECK_RESULT char *kmemdup_nul(const char *from, size_t size, gfp_t flags)
	SHEAF_SYMBOL(kmemdup_nul);

/*
 * A text as printf() would write it, to be freed by kfree(); formats are the C library's. NULL if memory is
 * out or the format fails. O(length), formatted twice.
 */
SHEAF_CHECK_RESULT char *kasprintf(gfp_t flags, const char *format, ...) SHEAF_SYMBOL(kasprintf)
	__attribute__((__format__(__printf__, 2, 3)));
SHEAF_CHECK_RESULT char *kvasprintf(gfp_t flags, const char *format, va_list arguments)
	SHEAF_SYMBOL(kvasprintf) __attribute__((__format__(__printf__, 2, 0)));

/* --- sets of one's own --------------------------------------------------------------------------
 */

/* Caches of the same sizes that nobody else allocates from: an overflow meets its own kind. */
typedef struct sheaf_kmem_buckets kmem_buckets;

/*
 * Make a set NAME-8 ... NAME-8k. Flags, useroffset, usersize and ctor are those of every cache (a
 * region beyond a small cache's object is cut to it). NULL: out of memory, or arguments that
 * kmem_cache_create() refuses. Destroy a set as one destroys a cache; NULL is allowed.
 */
kmem_buckets *kmem_buckets_create(const char *name, slab_flags_t flags, unsigned int useroffset,
				  unsigned int usersize, void (*ctor)(void *object))
	SHEAF_SYMBOL(kmem_buckets_create);
void kmem_buckets_destroy(kmem_buckets *set) SHEAF_SYMBOL(kmem_buckets_destroy);

/* kmalloc() and kvmalloc() from this set; from everybody's, if it is NULL. Free by kfree(). Blocks
 * above 8192 bytes are nobody's own. */
SHEAF_CHECK_RESULT void *kmem_buckets_alloc(kmem_buckets *set, size_t size, gfp_t flags)
	SHEAF_SYMBOL(kmem_buckets_alloc);
SHEAF_CHECK_RESULT void *kmem_buckets_valloc(kmem_buckets *set, size_t size, gfp_t flags)
	SHEAF_SYMBOL(kmem_buckets_valloc);

#ifdef __cplusplus
}
#endif

#endif
