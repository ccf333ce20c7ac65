/* SPDX-License-Identifier: MIT */
/*
 * libsheaf: object caches on per-CPU sheaves, with the names and signatures of the Linux kernel.
 *
 *     struct kmem_cache *cache = KMEM_CACHE(point, 0);
 *     struct point *p = kmem_cache_alloc(cache, GFP_KERNEL);
 *     kmem_cache_free(cache, p);
 *     kmem_cache_destroy(cache);
 *
 * Unless a function says otherwise it may be called from any thread, at any time after the program
 * or library began to run its constructors, inside an RCU read-side section, and in a forked child;
 * not from a signal handler, unless it is async-signal-safe. errno is preserved. Misuse is told in one line on standard error.
 *
 * Sizes are bytes. Link: `pkg-config --cflags --libs libsheaf`.
 */
#ifndef SHEAF_SLAB_H
#define SHEAF_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The library's symbols carry this prefix: kernel names are seen only where this file is. */
#define SHEAF_SYMBOL(name) __asm__("sheaf_" #name)

/* Casts that a C++ compiler with -Wold-style-cast accepts; the second one of an address as a number. */
#ifdef __cplusplus
#define SHEAF_CAST(type, value)	   static_cast<type>(value)
#define SHEAF_ADDRESS(type, value) reinterpret_cast<type>(value)
#else
#define SHEAF_CAST(type, value)	   ((type)(value))
#define SHEAF_ADDRESS(type, value) ((type)(value))
#endif

/* --- gfp: how an allocation may behave ---------------------------------------------------------
 */

typedef unsigned int gfp_t;

#define __GFP_DIRECT_RECLAIM 0x01u  /* may sleep and reclaim */
#define __GFP_KSWAPD_RECLAIM 0x02u  /* accepted, no effect here */
#define __GFP_HIGH	     0x04u  /* accepted, no effect here */
#define __GFP_NOWARN	     0x08u  /* fail silently */
#define __GFP_NORETRY	     0x10u  /* do not reclaim before failing */
#define __GFP_RETRY_MAYFAIL  0x20u  /* reclaim, then fail: the default here */
#define __GFP_IO	     0x40u  /* accepted, no effect here */
#define __GFP_FS	     0x80u  /* accepted, no effect here */
#define __GFP_ZERO	     0x100u /* zeroed memory */
#define __GFP_THISNODE	     0x200u /* kmem_cache_alloc_node(): that node or NULL */
#define __GFP_NOFAIL	     0x400u /* wait for memory rather than return NULL */
#define __GFP_ACCOUNT	     0x800u /* charge to a group; no group exists yet, so no effect */

#define __GFP_RECLAIM (__GFP_DIRECT_RECLAIM | __GFP_KSWAPD_RECLAIM)
/* 0, no flag at all, asks for what GFP_NOWAIT does: never waits for memory, never reclaims. */
#define GFP_KERNEL (__GFP_RECLAIM | __GFP_IO | __GFP_FS)
#define GFP_NOFS   (__GFP_RECLAIM | __GFP_IO)
#define GFP_NOIO   (__GFP_RECLAIM)
#define GFP_NOWAIT (__GFP_KSWAPD_RECLAIM | __GFP_NOWARN)
#define GFP_ATOMIC (__GFP_HIGH | __GFP_KSWAPD_RECLAIM)

#define GFP_KERNEL_ACCOUNT (GFP_KERNEL | __GFP_ACCOUNT)

/*
 * What kernel code says that has no meaning here and does no harm: which zone, which reserve, which checker.
 * As in a kernel built without these, they are no bits. The zones that an address must lie in (__GFP_DMA,
 * __GFP_DMA32) cannot be had and are not defined.
 */
#define __GFP_COMP	  0u
#define __GFP_HARDWALL	  0u
#define __GFP_HIGHMEM	  0u
#define __GFP_MEMALLOC	  0u
#define __GFP_MOVABLE	  0u
#define __GFP_NOLOCKDEP	  0u
#define __GFP_NOMEMALLOC  0u
#define __GFP_NO_OBJ_EXT  0u
#define __GFP_RECLAIMABLE 0u
#define __GFP_SKIP_KASAN  0u
#define __GFP_SKIP_ZERO	  0u
#define __GFP_WRITE	  0u
#define __GFP_ZEROTAGS	  0u

#define GFP_USER	     (GFP_KERNEL | __GFP_HARDWALL)
#define GFP_HIGHUSER	     (GFP_USER | __GFP_HIGHMEM)
#define GFP_HIGHUSER_MOVABLE (GFP_HIGHUSER | __GFP_MOVABLE)

/* Whether an allocation with these flags may sleep and reclaim. Async-signal-safe, O(1). */
static inline bool gfpflags_allow_blocking(const gfp_t gfp_flags)
{
	return (gfp_flags & __GFP_DIRECT_RECLAIM) != 0;
}

/* --- slab flags: what a cache is like ----------------------------------------------------------
 */

typedef unsigned int slab_flags_t;

#define SLAB_HWCACHE_ALIGN 0x0001u /* align to cache lines, small objects to parts */
#define SLAB_PANIC	   0x0002u /* abort the program if the cache cannot be made */
#define SLAB_NO_MERGE	   0x0004u /* never share slabs with a cache of the same size */
#define SLAB_NO_SHEAVES	   0x0008u /* no per-CPU sheaves: every object comes from its slab */
#define SLAB_RECLAIM_ACCOUNT                                                                       \
	0x0010u		     /* objects can be reclaimed: kept apart from those that cannot */
#define SLAB_ACCOUNT 0x0020u /* as __GFP_ACCOUNT on every allocation */
/*
 * Pages of empty slabs go back a grace period late, by the RCU provider of the cache (<sheaf/rcu.h>),
 * which must be there first. Objects themselves may be used again at once: a reader that found one
 * must take a reference that can fail, and then look whether it still is what it looked for.
 */
#define SLAB_TYPESAFE_BY_RCU 0x0040u
/* Accepted, without a meaning here: no bits, as in a kernel built without what they are about. */
#define SLAB_NOLEAKTRACE   0u
#define SLAB_NO_USER_FLAGS 0u
#define SLAB_TEMPORARY	   SLAB_RECLAIM_ACCOUNT

#define NUMA_NO_NODE (-1)

/* Largest object a cache can have. */
#define KMEM_CACHE_MAX_SIZE (SHEAF_CAST(size_t, 1) << 20)

struct kmem_cache;
struct sheaf_rcu_ops;

/*
 * What can be said about a cache beyond its size; zero means the default. Kernel: struct
 * kmem_cache_args. It may grow: kmem_cache_create() passes its size. Members that an
 * older header lacks are taken as zero. Reserved members, and those of a newer header that this version
 * does not know, must be zero, or the cache is not made. docs/versioning.md has the rule.
 */
struct kmem_cache_args {
	unsigned int align;	     /* bytes, a power of two; 0: the word */
	unsigned int useroffset;     /* region that may be copied to users: checked, and */
	unsigned int usersize;	     /* such a cache is not merged */
	unsigned int freeptr_offset; /* where a free object keeps its link, with the next one */
	unsigned char use_freeptr_offset; /* needs ctor or SLAB_TYPESAFE_BY_RCU; inside the object,
				     * a multiple of the word */
	unsigned char reserved[3];
	void (*ctor)(void *object);  /* runs once per object, before it is first handed out */
	unsigned int sheaf_capacity; /* objects in a sheaf at least; 0: by size (60, 28, 12 or 4) */
	unsigned int reserved2;
	/* Free objects a node's barn may hold, and bytes of them: see kmem_cache_set_barn() */
	size_t barn_objects, barn_bytes;
	const struct sheaf_rcu_ops *rcu; /* whose grace periods; NULL: the process's */
};

/*
 * Make a cache of objects of `size` bytes, 1 ... KMEM_CACHE_MAX_SIZE. The first 127 bytes of the name
 * are copied, control characters as `?`; a name in use already works, with a warning, and so does
 * NULL. A cache with the same layout may be shared (see SLAB_NO_MERGE). `args` may be NULL.
 *
 * Returns NULL if the arguments are wrong (one line says how) or memory is out; with SLAB_PANIC the
 * program ends instead. Takes a lock; the cost does not depend on the number of caches.
 */
struct kmem_cache *__kmem_cache_create_args(const char *name, size_t size,
					    const struct kmem_cache_args *args, size_t args_size,
					    slab_flags_t flags)
	SHEAF_SYMBOL(__kmem_cache_create_args);
/* The same with the older argument list. */
struct kmem_cache *__kmem_cache_create(const char *name, size_t size, size_t align,
				       slab_flags_t flags, void (*ctor)(void *object))
	SHEAF_SYMBOL(__kmem_cache_create);

#define SHEAF_PICK(a, b, c, d, e, chosen, ...) chosen
#define SHEAF_CREATE_4(name, size, args, flags)                                                    \
	__kmem_cache_create_args(name, size, args, sizeof(struct kmem_cache_args), flags)
#define SHEAF_CREATE_5(name, size, align, flags, ctor)                                             \
	__kmem_cache_create(name, size, align, flags, ctor)
#define SHEAF_CREATE_BAD(...) kmem_cache_create_takes_4_or_5_arguments

/* kmem_cache_create(name, size, args, flags) or (name, size, align, flags, ctor). */
#define kmem_cache_create(...)                                                                     \
	SHEAF_PICK(__VA_ARGS__, SHEAF_CREATE_5, SHEAF_CREATE_4, SHEAF_CREATE_BAD,                  \
		   SHEAF_CREATE_BAD, SHEAF_CREATE_BAD)                                             \
	(__VA_ARGS__)

#ifdef __cplusplus
#define SHEAF_ALIGNOF(type) alignof(type)
#else
#define SHEAF_ALIGNOF(type) _Alignof(type)
#endif

/* A cache for `struct type`, with its name, size and alignment. */
#define KMEM_CACHE(type, flags)                                                                    \
	__kmem_cache_create(#type, sizeof(struct type), SHEAF_ALIGNOF(struct type), flags, NULL)

/*
 * Give the cache up. NULL is allowed; a merged cache goes with its last name. Objects still live
 * are listed, and the cache is then leaked, so that they stay usable. Nobody else may be using it: every
 * call with it or its objects must have returned before this one begins, and the program must see to that
 * by its own synchronisation, as it does before free().
 * Sleeps; waits for grace periods of what was retired (<sheaf/rcu.h>), so not for readers. O(CPUs + slabs
 * of the cache); if objects are live, O(pages used by the library).
 */
void kmem_cache_destroy(struct kmem_cache *s) SHEAF_SYMBOL(kmem_cache_destroy);

/*
 * Give everything free back to the system: sheaves of every CPU, barns, empty slabs, free pages;
 * but not the library's own structures, which are kept for use again.
 * Returns 0 if no slab remains, 1 if some do. May run beside any other call. Sleeps.
 */
int kmem_cache_shrink(struct kmem_cache *s) SHEAF_SYMBOL(kmem_cache_shrink);

/* Bytes of an object, as it was asked for (of the largest, if merged). */
unsigned int kmem_cache_size(struct kmem_cache *s) SHEAF_SYMBOL(kmem_cache_size);

/*
 * Prove that every object of a quiet cache is in exactly one place: with the user, in one sheaf, on
 * one freelist. Returns the number of faults, each of them told in a line. -1: no memory to check.
 */
int kmem_cache_verify(struct kmem_cache *s) SHEAF_SYMBOL(kmem_cache_verify);

/*
 * Change a living cache: the capacity of new sheaves (1 ... 4096; old ones are used up), and the
 * limits of each node's barn. `objects` 0 sets none; `bytes` 0 sets what each cache begins with: 128 KiB
 * for each CPU that has used the cache, but not less than 4096 objects or 1 MiB, whichever is less. Ten
 * sheaves are always allowed. A merged cache changes under all its names. Return 0, or -1 if the cache
 * has no sheaves or the value is wrong.
 */
int kmem_cache_set_sheaf_capacity(struct kmem_cache *s, unsigned int capacity)
	SHEAF_SYMBOL(kmem_cache_set_sheaf_capacity);
int kmem_cache_set_barn(struct kmem_cache *s, size_t objects, size_t bytes)
	SHEAF_SYMBOL(kmem_cache_set_barn);

/* --- objects -----------------------------------------------------------------------------------
 */

/* How a cache begins. The two calls below are all that reads it; the rest of it is private. */
struct sheaf_calls {
	void *(*alloc)(struct kmem_cache *s, gfp_t flags);
	void *(*alloc_plain)(struct kmem_cache *s);
	void (*free)(struct kmem_cache *s, void *object);
};

#define SHEAF_CALLS(s) SHEAF_CAST(const struct sheaf_calls *, SHEAF_CAST(const void *, s))

/* Flags that the fast path need not look at. alloc_plain serves them as GFP_KERNEL: only if they
 * allow to reclaim. */
#define SHEAF_GFP_PLAIN 0xffu
#define SHEAF_GFP_IS_KERNEL(flags)                                                                 \
	(((flags) & ~(SHEAF_GFP_PLAIN & ~__GFP_NORETRY)) == 0 && ((flags)&__GFP_DIRECT_RECLAIM))

#define SHEAF_CHECK_RESULT __attribute__((__warn_unused_result__))

/*
 * An object, or NULL if memory is out. Its content is undefined (constructed, if the cache has a
 * ctor). The common case takes one restartable section: no lock, no atomic instruction.
 */
static inline SHEAF_CHECK_RESULT void *kmem_cache_alloc(struct kmem_cache *s, gfp_t flags)
{
	const struct sheaf_calls *calls = SHEAF_CALLS(s);

	if (__builtin_constant_p(flags) && SHEAF_GFP_IS_KERNEL(flags))
		return calls->alloc_plain(s);
	return calls->alloc(s, flags);
}

/* kmem_cache_free(NULL, object): a report. */
void __kmem_cache_free_null(void *object) SHEAF_SYMBOL(__kmem_cache_free_null)
	__attribute__((__cold__));

/*
 * Free an object of this cache; NULL is allowed. A pointer that is in no cache's memory is reported
 * and left alone. One into the memory of caches that is no object of this one, or is free already,
 * is only found if it is still in its sheaf when that is flushed: until then it may be handed out.
 * Without a cache (s is NULL) the object is reported and left alone.
 */
static inline void kmem_cache_free(struct kmem_cache *s, void *object)
{
	if (__builtin_expect(!s, 0)) {
		__kmem_cache_free_null(object);
		return;
	}
	SHEAF_CALLS(s)->free(s, object);
}

/* A zeroed object. Not for caches with a ctor. */
static inline SHEAF_CHECK_RESULT void *kmem_cache_zalloc(struct kmem_cache *s, gfp_t flags)
{
	return SHEAF_CALLS(s)->alloc(s, flags | __GFP_ZERO);
}

/*
 * An object on this node if it has memory, else any; with __GFP_THISNODE that node's or NULL.
 * NUMA_NO_NODE: as kmem_cache_alloc().
 */
SHEAF_CHECK_RESULT void *kmem_cache_alloc_node(struct kmem_cache *s, gfp_t flags, int node)
	SHEAF_SYMBOL(kmem_cache_alloc_node);

/*
 * Fill p[0] ... p[n-1] with objects: all of them (returns n, as int) or none (returns 0).
 */
SHEAF_CHECK_RESULT int kmem_cache_alloc_bulk(struct kmem_cache *s, gfp_t flags, size_t n, void **p)
	SHEAF_SYMBOL(kmem_cache_alloc_bulk);

/* Free p[0] ... p[n-1]. With s NULL each goes where it came from, blocks of kmalloc() too. */
void kmem_cache_free_bulk(struct kmem_cache *s, size_t n, void **p)
	SHEAF_SYMBOL(kmem_cache_free_bulk);

/* --- prefilled sheaves -------------------------------------------------------------------------
 *
 * Allocations that cannot fail: take what the worst case needs beforehand, as a whole and cheaply, and
 * give back what was not needed. The objects of a prefilled sheaf are allocated; they are freed like
 * others. A sheaf is its user's: one thread (or signal handler) at a time may use it.
 */

struct slab_sheaf;

/*
 * A sheaf with at least `size` objects (1 ... 262140); most often this CPU's spare sheaf, as it is, or
 * filled up. Above the sheaves' capacity, or if the cache has none, it is made for this once and has
 * exactly `size`. __GFP_ZERO has no effect here, nor has __GFP_THISNODE. NULL if memory is out, and
 * for size 0. O(1) if the spare has enough, else O(capacity).
 */
SHEAF_CHECK_RESULT struct slab_sheaf *kmem_cache_prefill_sheaf(struct kmem_cache *s, gfp_t gfp,
							       unsigned int size)
	SHEAF_SYMBOL(kmem_cache_prefill_sheaf);

/*
 * Bring a sheaf to at least `size` objects again; *sheafp may become another one. Returns 0; -ENOMEM
 * if memory is out, when the sheaf is still usable with what it has; -EINVAL without a sheaf.
 */
SHEAF_CHECK_RESULT int kmem_cache_refill_sheaf(struct kmem_cache *s, gfp_t gfp,
					       struct slab_sheaf **sheafp, unsigned int size)
	SHEAF_SYMBOL(kmem_cache_refill_sheaf);

/*
 * Give a sheaf back with what is left in it; NULL is allowed. O(1) if this CPU has no spare sheaf, as
 * after it was taken: the sheaf becomes the spare. Else it is filled up for the barn, if gfp allows to
 * allocate at all, or emptied into the slabs.
 */
void kmem_cache_return_sheaf(struct kmem_cache *s, gfp_t gfp, struct slab_sheaf *sheaf)
	SHEAF_SYMBOL(kmem_cache_return_sheaf);

/* How a prefilled sheaf begins. The call below is all that reads it. */
struct sheaf_lent {
	uint64_t left;
	uint64_t unused0;
	struct kmem_cache *by;
	uint64_t unused1;
	void *objects[1]; /* as many as it has */
};

/* What the next one does with an empty sheaf, with unusual flags, and with a wrong one. */
SHEAF_CHECK_RESULT void *__kmem_cache_alloc_from_sheaf(struct kmem_cache *s, gfp_t gfp,
						       struct slab_sheaf *sheaf)
	SHEAF_SYMBOL(__kmem_cache_alloc_from_sheaf);

/*
 * An object of the sheaf, or NULL if it is empty. A pop of private memory: never fails before, never
 * waits, O(1). Only __GFP_ZERO matters in gfp. Async-signal-safe.
 */
static inline SHEAF_CHECK_RESULT void *kmem_cache_alloc_from_sheaf(struct kmem_cache *s, gfp_t gfp,
								   struct slab_sheaf *sheaf)
{
	struct sheaf_lent *lent = SHEAF_CAST(struct sheaf_lent *, SHEAF_CAST(void *, sheaf));

	if (sheaf && lent->left && lent->by == s && !(gfp & ~SHEAF_GFP_PLAIN))
		return lent->objects[--lent->left];
	return __kmem_cache_alloc_from_sheaf(s, gfp, sheaf);
}

/* Objects left in the sheaf; 0 for NULL. Async-signal-safe. */
unsigned int kmem_cache_sheaf_size(struct slab_sheaf *sheaf) SHEAF_SYMBOL(kmem_cache_sheaf_size);

/* --- any context -------------------------------------------------------------------------------
 *
 * These two never wait, spin, or take a lock that anybody holds. They are async-signal-safe, also in a
 * handler that interrupted this library, whatever it was doing; and may be called in an RCU callback.
 * Objects of both kinds of calls are the same: each may free what the other allocated.
 */

/*
 * An object from this CPU's sheaves, the node's barn, or a slab that has some; or NULL if none of them
 * can be reached at once: no new memory is taken from the system, so a cache that nobody has allocated
 * from has none. Of gfp, __GFP_ZERO matters.
 */
SHEAF_CHECK_RESULT void *kmem_cache_alloc_nolock(struct kmem_cache *s, gfp_t gfp)
	SHEAF_SYMBOL(kmem_cache_alloc_nolock);

/*
 * Free an object; NULL is allowed. One that can be put nowhere at once, since its slab has to be listed
 * and somebody is just at the list, is put back by the cache's next slow path, shrink or destroy.
 */
void kmem_cache_free_nolock(struct kmem_cache *s, void *object)
	SHEAF_SYMBOL(kmem_cache_free_nolock);

/*
 * Is this address the library's? For programs in which malloc() and kfree() meet:
 *
 *     sheaf_owns(p) ? kfree(p) : free(p);
 *
 * True for every address of an object, of a block of kmalloc() or kvmalloc(), and of memory that the
 * library keeps itself: of the first byte as of any other up to what ksize() tells. What was freed
 * remains the library's, whether it is in use again or not, so that kfree() can tell a double free; but
 * not a block above 2 MiB, whose addresses are the system's again. True for ZERO_SIZE_PTR, which
 * kmalloc() returned; false for NULL, for a struct kmem_cache itself, and for all other addresses,
 * mapped or not: nothing is read there.
 *
 * The answer about a block that is freed meanwhile may be either. Takes no lock, never waits, and is
 * async-signal-safe. O(1). The kernel's is_vmalloc_addr() and virt_addr_valid() answer such questions.
 */
bool sheaf_owns(const void *address) SHEAF_SYMBOL(sheaf_owns);

#ifdef __cplusplus
}
#endif

#include <sheaf/kmalloc.h>
#include <sheaf/kmalloc_obj.h>

#endif
