/* SPDX-License-Identifier: MIT */
/*
 * Memory by size, with the names of the Linux kernel: caches for small sizes, mappings for large
 * ones. Included by <sheaf/slab.h>.
 *
 *     char *text = kmalloc(length + 1, GFP_KERNEL);
 *     kfree(text);
 *
 * Each of the caches, kmalloc-8 to kmalloc-1024k, is created when a block of its size is first
 * allocated, and has sheaves. There are eight sizes for each doubling from 128 bytes to 32 KiB,
 * multiples of 16 below, and the powers of two above. A block of 16 bytes or more is aligned to at
 * least 16, a smaller one to 8, and a block whose size is a power of two to its size. This
 * alignment is guaranteed; the sizes of the caches are not.
 *
 * The rules of <sheaf/slab.h> for threads, signals, fork and errno apply here, too. Calls with gfp
 * flags sleep only if the flags allow it. Sizes are bytes.
 */
#ifndef SHEAF_KMALLOC_H
#define SHEAF_KMALLOC_H

#include <sheaf/slab.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The result of a request for 0 bytes. It is not NULL, and may be freed like any block, but not
 * dereferenced. */
#define ZERO_SIZE_PTR SHEAF_ADDRESS(void *, 16)

/* True for NULL and ZERO_SIZE_PTR. */
#define ZERO_OR_NULL_PTR(pointer)                                                                  \
	(SHEAF_ADDRESS(uintptr_t, SHEAF_CAST(const volatile void *, pointer)) <= 16)

/* The largest size that this version's caches serve, and the largest of kmalloc(). kvmalloc()
 * serves up to INT_MAX. */
#define KMALLOC_MAX_CACHE_SIZE (SHEAF_CAST(size_t, 1) << 20)
#define KMALLOC_MAX_SIZE       (SHEAF_CAST(size_t, 4) << 20)

/* No block has fewer bytes, or a smaller alignment. */
#define KMALLOC_MIN_SIZE      (SHEAF_CAST(size_t, 8))
#define ARCH_KMALLOC_MINALIGN KMALLOC_MIN_SIZE

/*
 * Private: only kmalloc() below reads it. The cache for each size, in words of 8 bytes, up to
 * SHEAF_KMALLOC_WORDS words. Where the library must know the size itself, or which code asks, the
 * entry says that the call is to be made.
 *
 * Neither the sizes of caches nor their number are compiled into programs, because they may differ
 * between versions of the library. Programs reach the table through a pointer that never changes:
 * an executable may get a copy of a variable that it refers to (a COPY relocation), and a copied
 * variable can never grow.
 */
#define SHEAF_KMALLOC_WORDS 1024
struct sheaf_kmalloc_table {
	struct kmem_cache *by_words[SHEAF_KMALLOC_WORDS + 1];
};
extern struct sheaf_kmalloc_table *const sheaf_kmalloc_table;

/* Under a sanitizer that watches memory, kmalloc() is always a call: it passes the requested
 * bytes, not words. */
#if defined(__SANITIZE_ADDRESS__)
#define __SHEAF_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define __SHEAF_SANITIZED 1
#endif
#endif
#ifndef __SHEAF_SANITIZED
#define __SHEAF_SANITIZED 0
#endif

/* What kmalloc() calls where it is not in place, or takes nothing there. Other languages call it as
 * sheaf_kmalloc(). */
SHEAF_FRESH SHEAF_SIZED(1) void *__kmalloc(size_t size, gfp_t flags) SHEAF_SYMBOL(kmalloc);

/*
 * The same for a block of this type: with several sets of caches
 * (SHEAF_OPTIONS=random_kmalloc_caches), the token selects the set, in place of the caller. A token
 * is the compiler's number for a type, in the upper half of 64 bits if it contains pointers. Such
 * types and others have different sets.
 */
SHEAF_FRESH SHEAF_SIZED(1) void *__kmalloc_token(size_t size, gfp_t flags, uint64_t token)
	SHEAF_SYMBOL(__kmalloc_token);

/* Private: what kmalloc() takes in place; NULL: make the call. */
static __always_inline void *__kmalloc_pop(size_t size, gfp_t flags)
{
#if defined(SHEAF_HAS_SECTIONS) && !__SHEAF_SANITIZED
	if (size <= 8 * SHEAF_KMALLOC_WORDS && !(flags & ~SHEAF_GFP_PLAIN)) {
		struct kmem_cache *const *entry = &sheaf_kmalloc_table->by_words[(size + 7) >> 3];

		return SHEAF_POP_INLINE(__atomic_load_n(entry, __ATOMIC_ACQUIRE));
	}
#else
	(void)size;
	(void)flags;
#endif
	return NULL;
}

/*
 * Return at least size bytes, or NULL if there is no memory. The content is undefined; with
 * __GFP_ZERO it is zero up to the size that ksize() returns. 0 bytes: ZERO_SIZE_PTR. Above
 * KMALLOC_MAX_SIZE: NULL, and a report unless __GFP_NOWARN is given. Up to 8192 bytes the common
 * case and the cost are those of kmem_cache_alloc(); up to KMALLOC_MAX_CACHE_SIZE, those plus one
 * call. A larger block takes a lock, and so does the first block of a cache: it creates the cache.
 * If that fails, or a call that may not sleep would wait for another thread that creates or
 * destroys a cache, the block comes from a larger cache that exists, of up to twice that cache's
 * size or 128 bytes more, and as well aligned; if there is none, it waits unless __GFP_NORETRY is
 * given. O(1); O(size) if it is zeroed, and above KMALLOC_MAX_CACHE_SIZE.
 */
static __always_inline SHEAF_FRESH SHEAF_SIZED(1) void *kmalloc(size_t size, gfp_t flags)
{
	void *block = __kmalloc_pop(size, flags);

	return block ? block : __kmalloc(size, flags);
}

/* Private: kmalloc() for a type with this token; 0: the compiler knows none. */
static __always_inline SHEAF_FRESH SHEAF_SIZED(1) void *__kmalloc_typed(size_t size, gfp_t flags,
									uint64_t token)
{
	void *block;

	if (!token)
		return kmalloc(size, flags);
	block = __kmalloc_pop(size, flags);
	return block ? block : __kmalloc_token(size, flags, token);
}

/* Like kmalloc(), zeroed. */
static __always_inline SHEAF_FRESH SHEAF_SIZED(1) void *kzalloc(size_t size, gfp_t flags)
{
	return kmalloc(size, flags | __GFP_ZERO);
}

/* Private. */
static __always_inline SHEAF_FRESH SHEAF_SIZED(1, 2) void *__kmalloc_array_typed(size_t n,
										 size_t size,
										 gfp_t flags,
										 uint64_t token)
{
	size_t bytes;

	return __builtin_mul_overflow(n, size, &bytes) ? NULL
						       : __kmalloc_typed(bytes, flags, token);
}

/* n * size bytes; NULL if the product overflows. */
static __always_inline SHEAF_FRESH SHEAF_SIZED(1, 2) void *kmalloc_array(size_t n, size_t size,
									 gfp_t flags)
{
	return __kmalloc_array_typed(n, size, flags, 0);
}

/* Like kmalloc_array(), zeroed. */
static __always_inline SHEAF_FRESH SHEAF_SIZED(1, 2) void *kcalloc(size_t n, size_t size,
								   gfp_t flags)
{
	return kmalloc_array(n, size, flags | __GFP_ZERO);
}

/*
 * kmalloc() on this node, or on another node if it has no memory; with __GFP_THISNODE, NULL instead
 * (above 1 MiB the node is always only a preference). NUMA_NO_NODE: the same as kmalloc().
 */
SHEAF_FRESH SHEAF_SIZED(1) void *kmalloc_node(size_t size, gfp_t flags, int node)
	SHEAF_SYMBOL(kmalloc_node);

/* Like kmalloc_node(), zeroed. */
static __always_inline SHEAF_FRESH SHEAF_SIZED(1) void *kzalloc_node(size_t size, gfp_t flags,
								     int node)
{
	return kmalloc_node(size, flags | __GFP_ZERO, node);
}

/* kmalloc_array() and kcalloc() on this node. */
static __always_inline SHEAF_FRESH SHEAF_SIZED(1, 2) void *kmalloc_array_node(size_t n, size_t size,
									      gfp_t flags, int node)
{
	size_t bytes;

	return __builtin_mul_overflow(n, size, &bytes) ? NULL : kmalloc_node(bytes, flags, node);
}

static __always_inline SHEAF_FRESH SHEAF_SIZED(1, 2) void *kcalloc_node(size_t n, size_t size,
									gfp_t flags, int node)
{
	return kmalloc_array_node(n, size, flags | __GFP_ZERO, node);
}

/*
 * kmalloc() and kmalloc_node() for a function that allocates for others: with several sets of
 * caches, the code that called that function selects the set, unless there is a node.
 */
static __always_inline SHEAF_FRESH SHEAF_SIZED(1) void *kmalloc_track_caller(size_t size,
									     gfp_t flags)
{
	return __kmalloc_typed(size, flags, SHEAF_ADDRESS(uintptr_t, __builtin_return_address(0)));
}

static __always_inline SHEAF_FRESH SHEAF_SIZED(1) void *kmalloc_node_track_caller(size_t size,
										  gfp_t flags,
										  int node)
{
	return node == NUMA_NO_NODE ? kmalloc_track_caller(size, flags)
				    : kmalloc_node(size, flags, node);
}

/*
 * Change the size of a block and return it. It stays in place if it already has that many bytes;
 * otherwise the content is copied to a new block, and the old one is freed. If a new block would
 * have half the bytes or less (kmalloc_size_roundup()), the content moves there, too, but only if
 * memory is available immediately: so a smaller size never fails. A block moves to another cache of
 * its set. A block above 1 MiB that stays above it is not copied: the system moves its pages to
 * other addresses, or takes back those at its end.
 *
 * Returns NULL, and does not change the block, if there is no memory; after a report also if the
 * pointer is not the start of a block, if the block was freed or retired before (found as ksize()
 * finds it), or if it is an object of a SLAB_SECRET cache and would have to move. If the block is
 * NULL or ZERO_SIZE_PTR: the same as kmalloc(). If size is 0: the same as kfree(), and returns
 * ZERO_SIZE_PTR. __GFP_ZERO: the bytes beyond the old content are zero if every earlier call for
 * this block also had the flag. O(1), or O(size) if the content is copied. Kernel: never moves to a
 * smaller block.
 */
SHEAF_OBJECT SHEAF_SIZED(2) void *krealloc(const void *block, size_t size, gfp_t flags)
	SHEAF_SYMBOL(krealloc);

/*
 * krealloc() to a block that is aligned to `align`, a power of two up to 1 GiB; NULL, after a
 * report, for any other. A new block is on this node, as by kmalloc_node(). A block that is aligned
 * moves to the node only with __GFP_THISNODE; above 1 MiB it never does. Because it may have to
 * move, a smaller size may fail, too. krealloc_node() keeps no alignment. Kernel: the same call,
 * for the alignments of kmalloc().
 */
SHEAF_OBJECT SHEAF_SIZED(2) void *krealloc_node_align(const void *block, size_t size,
						      unsigned long align, gfp_t flags, int node)
	SHEAF_SYMBOL(krealloc_node_align);

static __always_inline SHEAF_OBJECT SHEAF_SIZED(2) void *krealloc_node(const void *block,
								       size_t size, gfp_t flags,
								       int node)
{
	return krealloc_node_align(block, size, 1, flags, node);
}

/* Like krealloc(), for n * size bytes; NULL if the product overflows. */
static __always_inline SHEAF_OBJECT SHEAF_SIZED(2, 3) void *krealloc_array(void *block, size_t n,
									   size_t size, gfp_t flags)
{
	size_t bytes;

	return __builtin_mul_overflow(n, size, &bytes) ? NULL : krealloc(block, bytes, flags);
}

/*
 * Free a block from any call of this header, or an object of any cache. NULL and ZERO_SIZE_PTR are
 * allowed. A pointer that does not belong to the library is reported and not freed. A pointer to a
 * free block, or into a block, is found as by kmem_cache_free(). The common case takes one
 * restartable section. Never waits for memory. O(1); O(size) above 1 MiB.
 */
void kfree(const void *block) SHEAF_SYMBOL(kfree);

/* kfree() of p[0] ... p[n-1]; consecutive blocks of the same size are freed together. O(n). */
static __always_inline void kfree_bulk(size_t n, void **p)
{
	kmem_cache_free_bulk(NULL, n, p);
}

/*
 * kfree(), but first overwrite the whole block with zeros (ksize() bytes). A pointer that is not
 * the start of a block, and a block that was freed or retired before, are reported, and nothing is
 * overwritten or freed. ksize() says which of these are found. O(size).
 */
void kfree_sensitive(const void *block) SHEAF_SYMBOL(kfree_sensitive);

/*
 * Return the usable bytes of a block; 0 for NULL and ZERO_SIZE_PTR, and after a report for a
 * pointer that is not the start of a block in use. A retired block (kfree_rcu()) is in use until
 * its grace period has passed. The library detects every block above KMALLOC_MAX_CACHE_SIZE that
 * was freed or retired, and every smaller one with slab_debug or slab_check_double; otherwise only
 * smaller ones that are back in their slabs. O(1), no lock. Compilers know the requested size, and
 * _FORTIFY_SOURCE ends a program that writes beyond it. To use all bytes, request
 * kmalloc_size_roundup(size). With slab_debug, except for the letter S alone, this returns the
 * requested size.
 */
size_t ksize(const void *block) SHEAF_SYMBOL(ksize);

/*
 * Return what ksize() returns for kmalloc(size) without slab_debug; size itself if kmalloc()
 * refuses it. ksize() may return more above 1 MiB, and where there was no memory for a block of
 * the cache of that size. O(1).
 */
size_t kmalloc_size_roundup(size_t size) SHEAF_SYMBOL(kmalloc_size_roundup);

/* --- larger than kmalloc() -------------------------------------------------------------------- */

/*
 * kmalloc_node() and kmalloc() for up to INT_MAX bytes. Blocks above 1 MiB are separate mappings,
 * aligned to 2 MiB. Up to 64 MiB there are eight sizes for each doubling, and freed blocks are kept
 * for requests of their size to half of it, which get all of the block. Any other allocation or
 * free costs system calls and O(size / 2 MiB), however many blocks there are.
 */
SHEAF_FRESH SHEAF_SIZED(1) void *kvmalloc_node(size_t size, gfp_t flags, int node)
	SHEAF_SYMBOL(kvmalloc_node);

/*
 * kvmalloc_node(), aligned to `align`, a power of two up to 1 GiB; NULL, after a report, for any
 * other. If both are at most 1 MiB, the block has a multiple of `align` bytes. krealloc() and
 * kvrealloc() do not keep the alignment. Kernel: the same call, since 6.18.
 */
SHEAF_FRESH SHEAF_SIZED(1) void *kvmalloc_node_align(size_t size, unsigned long align, gfp_t flags,
						     int node) SHEAF_SYMBOL(kvmalloc_node_align);

/* Private. */
static __always_inline SHEAF_FRESH SHEAF_SIZED(1) void *__kvmalloc_typed(size_t size, gfp_t flags,
									 uint64_t token)
{
	if (__builtin_expect(size <= 8 * SHEAF_KMALLOC_WORDS, 1))
		return __kmalloc_typed(size, flags, token);
	if (token && size <= KMALLOC_MAX_CACHE_SIZE)
		return __kmalloc_token(size, flags, token);
	return kvmalloc_node(size, flags, NUMA_NO_NODE);
}

static __always_inline SHEAF_FRESH SHEAF_SIZED(1) void *kvmalloc(size_t size, gfp_t flags)
{
	return __kvmalloc_typed(size, flags, 0);
}

static __always_inline SHEAF_FRESH SHEAF_SIZED(1) void *kvzalloc(size_t size, gfp_t flags)
{
	return kvmalloc(size, flags | __GFP_ZERO);
}

static __always_inline SHEAF_FRESH SHEAF_SIZED(1) void *kvzalloc_node(size_t size, gfp_t flags,
								      int node)
{
	return kvmalloc_node(size, flags | __GFP_ZERO, node);
}

/* Private. */
static __always_inline SHEAF_FRESH SHEAF_SIZED(1, 2) void *__kvmalloc_array_typed(size_t n,
										  size_t size,
										  gfp_t flags,
										  uint64_t token)
{
	size_t bytes;

	return __builtin_mul_overflow(n, size, &bytes) ? NULL
						       : __kvmalloc_typed(bytes, flags, token);
}

/* n * size bytes; NULL if the product overflows. */
static __always_inline SHEAF_FRESH SHEAF_SIZED(1, 2) void *kvmalloc_array(size_t n, size_t size,
									  gfp_t flags)
{
	return __kvmalloc_array_typed(n, size, flags, 0);
}

static __always_inline SHEAF_FRESH SHEAF_SIZED(1, 2) void *kvcalloc(size_t n, size_t size,
								    gfp_t flags)
{
	return kvmalloc_array(n, size, flags | __GFP_ZERO);
}

/* kvmalloc_array() and kvcalloc() on this node, as by kmalloc_node(). */
static __always_inline SHEAF_FRESH SHEAF_SIZED(1,
					       2) void *kvmalloc_array_node(size_t n, size_t size,
									    gfp_t flags, int node)
{
	size_t bytes;

	return __builtin_mul_overflow(n, size, &bytes) ? NULL : kvmalloc_node(bytes, flags, node);
}

static __always_inline SHEAF_FRESH SHEAF_SIZED(1, 2) void *kvcalloc_node(size_t n, size_t size,
									 gfp_t flags, int node)
{
	return kvmalloc_array_node(n, size, flags | __GFP_ZERO, node);
}

/* krealloc(), krealloc_node_align() and krealloc_node() for blocks of kvmalloc(). */
SHEAF_OBJECT SHEAF_SIZED(2) void *kvrealloc(const void *block, size_t size, gfp_t flags)
	SHEAF_SYMBOL(kvrealloc);
SHEAF_OBJECT SHEAF_SIZED(2) void *kvrealloc_node_align(const void *block, size_t size,
						       unsigned long align, gfp_t flags, int node)
	SHEAF_SYMBOL(kvrealloc_node_align);

static __always_inline SHEAF_OBJECT SHEAF_SIZED(2) void *kvrealloc_node(const void *block,
									size_t size, gfp_t flags,
									int node)
{
	return kvrealloc_node_align(block, size, 1, flags, node);
}

/* As kfree(). Kernel: kvfree() may sleep, and kvfree_atomic() does not; here no free waits for
 * memory. */
static __always_inline void kvfree(const void *block)
{
	kfree(block);
}

static __always_inline void kvfree_atomic(const void *block)
{
	kfree(block);
}

/*
 * kvfree(), but first overwrite size bytes with zeros, at most ksize() bytes. Reports what
 * kfree_sensitive() reports, and then overwrites and frees nothing. O(size).
 */
void kvfree_sensitive(const void *block, size_t size) SHEAF_SYMBOL(kvfree_sensitive);

/* --- any context ------------------------------------------------------------------------------ */

/*
 * Return at least size bytes in any context, as by kmem_cache_alloc_nolock(): from the cache of
 * that size, or from a larger one, of up to twice that cache's size or 128 bytes more, and as well
 * aligned. It creates no cache: call kmalloc() once before, for this size, and with __GFP_ACCOUNT
 * if this call has it. The node is a preference; NUMA_NO_NODE: the node of this CPU. NULL if there
 * is no such cache, if none of them has a block that is available without waiting for a lock, and
 * above KMALLOC_MAX_CACHE_SIZE. 0 bytes: ZERO_SIZE_PTR. All flags in gfp except __GFP_ZERO and
 * __GFP_ACCOUNT are ignored. With several sets of caches (SHEAF_OPTIONS=random_kmalloc_caches), the
 * set of the call site is tried first, then the others but those for types that contain pointers.
 * Async-signal-safe, O(nodes * sets).
 */
SHEAF_FRESH SHEAF_SIZED(1) void *kmalloc_nolock(size_t size, gfp_t gfp, int node)
	SHEAF_SYMBOL(kmalloc_nolock);

/* Free a block of a cache in any context, as by kmem_cache_free_nolock(), whichever call allocated
 * it. NULL and ZERO_SIZE_PTR are allowed; blocks above KMALLOC_MAX_CACHE_SIZE are reported and not
 * freed. Async-signal-safe. */
void kfree_nolock(const void *block) SHEAF_SYMBOL(kfree_nolock);

/* --- separate sets of caches ------------------------------------------------------------------ */

/* Caches of the same sizes that only calls with this set use: an overflow hits only blocks of the
 * same kind. */
typedef struct sheaf_kmem_buckets kmem_buckets;

/*
 * Create a set of caches NAME-8 ... NAME-1024k, each when it is first needed; the name is copied.
 * Flags, useroffset, usersize and ctor apply to every cache (a region that exceeds a small cache's
 * objects is cut), and so does the alignment of kmalloc(). NULL if there is no memory, if
 * kmem_cache_create() refuses an argument, or for SLAB_SECRET: large blocks come from no cache.
 * Takes a lock. The rules for destroying a set are
 * those of kmem_cache_destroy(); NULL is allowed.
 */
kmem_buckets *kmem_buckets_create(const char *name, slab_flags_t flags, unsigned int useroffset,
				  unsigned int usersize, void (*ctor)(void *object))
	SHEAF_SYMBOL(kmem_buckets_create);
void kmem_buckets_destroy(kmem_buckets *set) SHEAF_SYMBOL(kmem_buckets_destroy);

/*
 * kmalloc() and kvmalloc() from this set, or from the common caches if it is NULL. Free blocks by
 * kfree(). Charged blocks (__GFP_ACCOUNT, or SLAB_ACCOUNT of the set) are from this set, too.
 * Blocks above 1 MiB are not kept separate, and are not constructed.
 */
SHEAF_OBJECT SHEAF_SIZED(2) void *kmem_buckets_alloc(kmem_buckets *set, size_t size, gfp_t flags)
	SHEAF_SYMBOL(kmem_buckets_alloc);
SHEAF_OBJECT SHEAF_SIZED(2) void *kmem_buckets_valloc(kmem_buckets *set, size_t size, gfp_t flags)
	SHEAF_SYMBOL(kmem_buckets_valloc);

/* kmem_buckets_alloc(): the set chooses the caches, whoever called. */
static __always_inline
	SHEAF_OBJECT SHEAF_SIZED(2) void *kmem_buckets_alloc_track_caller(kmem_buckets *set,
									  size_t size, gfp_t flags)
{
	return kmem_buckets_alloc(set, size, flags);
}

#ifdef __cplusplus
}
#endif

#include <sheaf/kmalloc_copy.h>
#include <sheaf/kmalloc_obj.h>
#include <sheaf/vmalloc.h>

#endif
