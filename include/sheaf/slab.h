/* SPDX-License-Identifier: MIT */
/*
 * libsheaf: object caches on per-CPU sheaves, with the names and signatures of the Linux kernel.
 *
 *     struct kmem_cache *cache = KMEM_CACHE(point, 0);
 *     struct point *p = kmem_cache_alloc(cache, GFP_KERNEL);
 *     kmem_cache_free(cache, p);
 *     kmem_cache_destroy(cache);
 *
 * Unless a function's comment says otherwise, any thread may call it, from the program's first
 * constructor on, inside an RCU read-side section, and in a forked child. A signal handler may call
 * it only if it is async-signal-safe. All calls preserve errno; a call that returns an error
 * returns it as a negative error number. Misuse is reported, by default in one line on standard
 * error. So is a cache that is NULL, except by kmem_cache_alloc(), which does not test it: the
 * program ends there.
 *
 * Sizes are bytes. Kernel: the calls of the same names; comments name the differences, and the
 * calls that the kernel does not have. Link: `pkg-config --cflags --libs libsheaf`.
 */
#ifndef SHEAF_SLAB_H
#define SHEAF_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The library's symbols have this prefix, so only files that include this header see the kernel's
 * names. */
#define SHEAF_SYMBOL(name) __asm__("sheaf_" #name)

/* Casts that a C++ compiler accepts with -Wold-style-cast; the second one converts between
 * addresses and numbers. */
#ifdef __cplusplus
#define SHEAF_CAST(type, value)	   static_cast<type>(value)
#define SHEAF_ADDRESS(type, value) reinterpret_cast<type>(value)
#else
#define SHEAF_CAST(type, value)	   ((type)(value))
#define SHEAF_ADDRESS(type, value) ((type)(value))
#endif

/* --- gfp: how an allocation may behave -------------------------------------------------------- */

/* A flag that is not defined here is reported and ignored. Those from 0x1000000 on are reserved for
 * the library. */
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
#define __GFP_NOFAIL	     0x400u /* wait for memory instead of returning NULL */
#define __GFP_ACCOUNT	     0x800u /* charge to the current group: <sheaf/group.h> */

#define __GFP_RECLAIM (__GFP_DIRECT_RECLAIM | __GFP_KSWAPD_RECLAIM)
/* 0 means the same as GFP_NOWAIT: never wait for memory, never reclaim. */
#define GFP_KERNEL (__GFP_RECLAIM | __GFP_IO | __GFP_FS)
#define GFP_NOFS   (__GFP_RECLAIM | __GFP_IO)
#define GFP_NOIO   (__GFP_RECLAIM)
#define GFP_NOWAIT (__GFP_KSWAPD_RECLAIM | __GFP_NOWARN)
#define GFP_ATOMIC (__GFP_HIGH | __GFP_KSWAPD_RECLAIM)

#define GFP_KERNEL_ACCOUNT (GFP_KERNEL | __GFP_ACCOUNT)

/*
 * Flags of kernel code that have no meaning here: zones, reserves, checkers. They are 0, as in a
 * kernel built without these features. __GFP_DMA and __GFP_DMA32, too: there are no zones, and the
 * memory may have any address.
 */
#define __GFP_COMP	  0u
#define __GFP_DMA	  0u
#define __GFP_DMA32	  0u
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
#define GFP_DMA		     __GFP_DMA
#define GFP_DMA32	     __GFP_DMA32
#define GFP_TRANSHUGE_LIGHT                                                                        \
	((GFP_HIGHUSER_MOVABLE | __GFP_COMP | __GFP_NOMEMALLOC | __GFP_NOWARN) & ~__GFP_RECLAIM)
#define GFP_TRANSHUGE (GFP_TRANSHUGE_LIGHT | __GFP_DIRECT_RECLAIM)

/* All flags of this and of later versions are in these bits. A program may use the bits above for
 * its own purposes, if it clears them before it passes the flags on. */
#define __GFP_BITS_SHIFT 24
#define __GFP_BITS_MASK	 ((1u << __GFP_BITS_SHIFT) - 1)

/* GFP_KERNEL if there is no argument, otherwise the argument: for macros whose flags are optional.
 */
#ifdef __cplusplus
static __always_inline gfp_t __sheaf_default_gfp(gfp_t flags = GFP_KERNEL)
{
	return flags;
}
#define default_gfp(...) __sheaf_default_gfp(__VA_ARGS__)
#else
#define default_gfp(...) (((const gfp_t[]){GFP_KERNEL, __VA_ARGS__})[sizeof(#__VA_ARGS__) != 1])
#endif

/*
 * Return what an allocation with these flags may do: sleep and reclaim; take locks for a moment, as
 * all calls do whose names do not end in _nolock; use file systems and devices, which has no effect
 * here. Async-signal-safe, O(1).
 */
static __always_inline bool gfpflags_allow_blocking(const gfp_t gfp_flags)
{
	return (gfp_flags & __GFP_DIRECT_RECLAIM) != 0;
}

static __always_inline bool gfpflags_allow_spinning(const gfp_t gfp_flags)
{
	return (gfp_flags & __GFP_RECLAIM) != 0;
}

static __always_inline bool gfp_has_io_fs(gfp_t gfp)
{
	return (gfp & (__GFP_IO | __GFP_FS)) == (__GFP_IO | __GFP_FS);
}

/* --- slab flags: what a cache is like --------------------------------------------------------- */

/* Those from 0x100000 on are the library's own. */
typedef unsigned int slab_flags_t;

#define SLAB_HWCACHE_ALIGN   0x0001u /* align to cache lines, small objects to parts of lines */
#define SLAB_PANIC	     0x0002u /* abort the program if the cache cannot be created */
#define SLAB_NO_MERGE	     0x0004u /* never share slabs with a cache of the same size */
#define SLAB_NO_SHEAVES	     0x0008u /* no per-CPU sheaves: every object comes from its slab */
#define SLAB_RECLAIM_ACCOUNT 0x0010u /* share slabs only with caches that have this flag, too */
#define SLAB_ACCOUNT	     0x0020u /* as __GFP_ACCOUNT on every allocation */
/*
 * Pages of empty slabs are returned only after a grace period of the cache's RCU provider
 * (<sheaf/rcu.h>), which must be registered first. Objects themselves may be allocated again
 * immediately: a reader that found an object must take a reference, which may fail, and then check
 * that it is still the object it looked for.
 */
#define SLAB_TYPESAFE_BY_RCU 0x0040u
/*
 * Checks of this cache, for finding bugs: the letters of SHEAF_OPTIONS=slab_debug, which
 * docs/debugging.md describes. Such a cache has no sheaves, and its objects take more memory.
 */
#define SLAB_CONSISTENCY_CHECKS 0x0080u /* F: check each allocation and free */
#define SLAB_RED_ZONE		0x0100u /* Z: bytes around objects, to find writes out of bounds */
#define SLAB_POISON		0x0200u /* P: fill free objects, to find writes after the free */
#define SLAB_STORE_USER		0x0400u /* U: store who allocated and who freed */
#define SLAB_TRACE		0x0800u /* T: a line for each allocation and free */
#define SLAB_FAILSLAB		0x1000u /* A: make allocations fail: see failslab_probability */
#define SLAB_NO_USER_FLAGS	0x2000u /* the option slab_debug does not apply to this cache */
/*
 * For keys and passwords: the cache's slabs are locked in memory (mlock), so they are never swapped
 * out; they are left out of core dumps; objects are cleared when they are freed, and slabs before
 * their pages are reused. Such a cache shares its slabs with no other, and slab_debug, whose
 * reports show contents, does not apply to it. It has no constructor and is not
 * SLAB_TYPESAFE_BY_RCU; krealloc() does not move its objects into a larger block. If the system
 * refuses to lock a slab (RLIMIT_MEMLOCK), one line says so and the allocation returns NULL. A
 * forked child gets copies that are not locked. Not in the kernel.
 */
#define SLAB_SECRET 0x4000u
/* Accepted without effect, as in a kernel built without these features. Memory for devices
 * (SLAB_CACHE_DMA, SLAB_CACHE_DMA32) may have any address. */
#define SLAB_CACHE_DMA	   0u
#define SLAB_CACHE_DMA32   0u
#define SLAB_DEBUG_OBJECTS 0u
#define SLAB_KASAN	   0u
#define SLAB_NOLEAKTRACE   0u
#define SLAB_SKIP_KFENCE   0u
/* The kernel's other name. */
#define SLAB_TEMPORARY SLAB_RECLAIM_ACCOUNT

/* As a memory node: no preference. */
#define NUMA_NO_NODE (-1)

/* The largest size of an object, in bytes. */
#define KMEM_CACHE_MAX_SIZE (SHEAF_CAST(size_t, 4) << 20)

struct kmem_cache;
struct kmem_group;
struct sheaf_rcu_ops;

/*
 * Properties of a cache other than its size; zero means the default. Kernel: struct
 * kmem_cache_args. The structure may grow, so kmem_cache_create() passes its size. Members that an
 * older header lacks count as zero. Reserved members, and members of a newer header that this
 * version does not know, must be zero, or the cache is not created. docs/versioning.md has the
 * rule.
 */
struct kmem_cache_args {
	/* Alignment in bytes: a power of two, at most 1048576. 0: that of a word. */
	unsigned int align;
	/* The region that may be copied to users: usersize bytes at useroffset. It must lie inside
	 * the object, or it is reported and ignored. A cache with a region is not merged. */
	unsigned int useroffset, usersize;
	/* Checked, but without effect, because free objects hold no link: a multiple of the word,
	 * inside the object, for caches with ctor or SLAB_TYPESAFE_BY_RCU. */
	unsigned int freeptr_offset;
	unsigned char use_freeptr_offset;
	unsigned char reserved[3];
	/* Runs once per object, before the object is first handed out. It must return: if it is
	 * left by longjmp() or an exception, up to 64 objects are lost. The thread is not cancelled
	 * in it. */
	void (*ctor)(void *object);
	/* The least number of objects that a sheaf holds; at most 4096. 0: 60 to 1, by size. */
	unsigned int sheaf_capacity;
	unsigned int reserved2;
	/* Limits of each node's barn, in free objects and in bytes: see kmem_cache_set_barn(). */
	size_t barn_objects, barn_bytes;
	/* The provider of grace periods (<sheaf/rcu.h>); NULL: that of the process. */
	const struct sheaf_rcu_ops *rcu;
	/* Charge each object to this group (<sheaf/group.h>), whatever the current one is. The
	 * cache holds a reference until it is destroyed, is not merged, and has SLAB_ACCOUNT. */
	struct kmem_group *group;
	/* The most bytes of memory of its slabs: see kmem_cache_set_limit(). 0: none. A cache with
	 * a limit is not merged. */
	size_t limit;
};

/*
 * Create a cache of objects of `size` bytes, 1 ... KMEM_CACHE_MAX_SIZE. The first 127 bytes of the
 * name are copied, with control characters replaced by `?`. A name that is already in use, and
 * NULL, work with a warning. Caches with the same layout may be merged (see SLAB_NO_MERGE). `args`
 * may be NULL. Objects above 1 MiB have no sheaves, and a slab each, of 2 or 4 MiB, or 8 MiB with
 * checks (slab_debug). They take memory only for pages that the program touches.
 *
 * Returns NULL if an argument is wrong (which is reported in one line) or there is no memory; with
 * SLAB_PANIC the program ends instead. Takes a lock; O(1) up to some thousands of caches, and then
 * in proportion to their number. Programs call it by the macro kmem_cache_create() below.
 */
struct kmem_cache *__kmem_cache_create_args(const char *name, size_t size,
					    const struct kmem_cache_args *args, size_t args_size,
					    slab_flags_t flags)
	SHEAF_SYMBOL(__kmem_cache_create_args);
/* kmem_cache_create() with the older argument list. */
struct kmem_cache *__kmem_cache_create(const char *name, size_t size, size_t align,
				       slab_flags_t flags, void (*ctor)(void *object))
	SHEAF_SYMBOL(__kmem_cache_create);

/*
 * kmem_cache_create(name, size, args, flags), as in the kernel since 6.12, or the older
 * kmem_cache_create(name, size, align, flags, ctor). `args` may be written in place:
 *
 *     kmem_cache_create("node", 96, &(struct kmem_cache_args){.align = 64, .ctor = f}, 0)
 *     kmem_cache_create("node", 96, kmem_cache_args{.align = 64, .ctor = f}, 0)    in C++20
 */
#ifndef __cplusplus
static __always_inline struct kmem_cache *
__kmem_cache_create_with(const char *name, size_t size, const struct kmem_cache_args *args,
			 slab_flags_t flags)
{
	return __kmem_cache_create_args(name, size, args, sizeof(*args), flags);
}

/*
 * To the preprocessor, commas between braces separate arguments. So five of them may be the older
 * list, or a structure in two parts. The last one decides: a constructor (or NULL, but not 0), or
 * flags, which are of class 1, the integers.
 */
#define SHEAF_CREATE(...) __kmem_cache_create_with(__VA_ARGS__)
#define SHEAF_CREATE_5(a, b, c, d, last)                                                           \
	__builtin_choose_expr(__builtin_classify_type(last) == 1, __kmem_cache_create_with,        \
			      __kmem_cache_create)(a, b, c, d, last)
#define SHEAF_PICK(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, chosen, ...) chosen
#define kmem_cache_create(...)                                                                     \
	SHEAF_PICK(__VA_ARGS__, SHEAF_CREATE, SHEAF_CREATE, SHEAF_CREATE, SHEAF_CREATE,            \
		   SHEAF_CREATE, SHEAF_CREATE, SHEAF_CREATE, SHEAF_CREATE, SHEAF_CREATE,           \
		   SHEAF_CREATE, SHEAF_CREATE, SHEAF_CREATE, SHEAF_CREATE, SHEAF_CREATE,           \
		   SHEAF_CREATE, SHEAF_CREATE_5, SHEAF_CREATE, SHEAF_CREATE, SHEAF_CREATE,         \
		   SHEAF_CREATE, )                                                                 \
	(__VA_ARGS__)
#else
extern "C++" {
static __always_inline struct kmem_cache *kmem_cache_create(const char *name, size_t size,
							    const struct kmem_cache_args *args,
							    slab_flags_t flags)
{
	return __kmem_cache_create_args(name, size, args, sizeof(*args), flags);
}

static __always_inline struct kmem_cache *kmem_cache_create(const char *name, size_t size,
							    const struct kmem_cache_args &args,
							    slab_flags_t flags)
{
	return __kmem_cache_create_args(name, size, &args, sizeof(args), flags);
}

static __always_inline struct kmem_cache *kmem_cache_create(const char *name, size_t size,
							    size_t align, slab_flags_t flags,
							    void (*ctor)(void *object))
{
	return __kmem_cache_create(name, size, align, flags, ctor);
}
}
#endif

#ifdef __cplusplus
#define SHEAF_ALIGNOF(type) alignof(type)
#else
#define SHEAF_ALIGNOF(type) _Alignof(type)
#endif

/* A cache for `struct type`, with its name, size and alignment. */
#define KMEM_CACHE(type, flags)                                                                    \
	__kmem_cache_create(#type, sizeof(struct type), SHEAF_ALIGNOF(struct type), flags, NULL)

/*
 * The older argument list, with a region that may be copied to users: usersize bytes at useroffset.
 * The macro creates a cache for `struct type` whose region is one field.
 */
struct kmem_cache *kmem_cache_create_usercopy(const char *name, size_t size, size_t align,
					      slab_flags_t flags, size_t useroffset,
					      size_t usersize, void (*ctor)(void *object))
	SHEAF_SYMBOL(kmem_cache_create_usercopy);
#define KMEM_CACHE_USERCOPY(type, flags, field)                                                    \
	kmem_cache_create_usercopy(#type, sizeof(struct type), SHEAF_ALIGNOF(struct type), flags,  \
				   offsetof(struct type, field),                                   \
				   sizeof(SHEAF_CAST(struct type *, NULL)->field), NULL)

/*
 * Destroy the cache. NULL is allowed. A merged cache lives until its last name is destroyed.
 * Objects still in use are reported, and the cache is then leaked, so that they stay usable: it
 * accepts them when they are freed, allows statistics and checks, and reports and refuses
 * everything else. To get their number, read objects_in_use with kmem_cache_stats()
 * (<sheaf/stats.h>) before this call; for a merged cache that is the number of all its names. No
 * other thread may be using the cache: every call with it or its objects must have returned before
 * this call begins. The program must ensure that with its own synchronisation, as before free().
 * May sleep. Waits for grace periods of retired objects (<sheaf/rcu.h>), so readers must not call
 * it. O(CPUs + slabs of the cache); if objects are in use, O(pages used by the library).
 */
void kmem_cache_destroy(struct kmem_cache *s) SHEAF_SYMBOL(kmem_cache_destroy);

/*
 * Return the cache's free memory to the system: empty the sheaves of every CPU, the barns and the
 * cache's quarantine, and return the pages of its empty slabs; those of SLAB_TYPESAFE_BY_RCU caches
 * return over time, after their grace period. Free pages that belong to no slab stay, whichever
 * cache they come from: see sheaf_trim() in <sheaf/trim.h>. Returns 0 if the cache has no slabs
 * left, otherwise 1; -EINVAL after a report if the cache is NULL or was destroyed. Safe while other
 * threads use the cache: they wait for 64 slabs at most. May sleep, but does not wait for grace
 * periods. O(CPUs + objects in sheaves + empty slabs): slabs with objects in use cost nothing.
 */
int kmem_cache_shrink(struct kmem_cache *s) SHEAF_SYMBOL(kmem_cache_shrink);

/* True: a program can make all calls from its first constructor on. */
static __always_inline bool slab_is_available(void)
{
	return true;
}

/* Return the requested object size in bytes; for merged caches, the largest of their sizes. O(1),
 * no lock. */
unsigned int kmem_cache_size(struct kmem_cache *s) SHEAF_SYMBOL(kmem_cache_size);

/*
 * Check that every object of a quiet cache is in exactly one place: with the user, in one sheaf, or
 * free in its slab. In a debug cache (SLAB_RED_ZONE, SLAB_POISON), also check their bytes; objects
 * in quarantine (slab_debug=Q) leave it. Returns the number of faults, each of which is reported,
 * -ENOMEM if there is no memory for the check, or -EINVAL after a report for NULL. No other thread
 * may use the cache meanwhile. May sleep. O(pages used by the library). Kernel: a write to
 * /sys/kernel/slab/NAME/validate checks slabs alone.
 */
int kmem_cache_verify(struct kmem_cache *s) SHEAF_SYMBOL(kmem_cache_verify);

/*
 * Change a cache that is in use: the number of objects that a new sheaf holds (1 ... 4096; old
 * sheaves are used up and replaced), and the limits of each node's barn, in objects and in bytes.
 * `objects` 0 sets no limit on objects. `bytes` 0 sets the initial limit: 128 KiB for each CPU that
 * has used the cache, but not less than 4096 objects or 1 MiB, whichever is less; it grows up to 4
 * MiB for each CPU while batches of a CPU need that. Ten sheaves are always allowed; of large ones,
 * 2 MiB and two sheaves. A merged cache changes under all its names. Return 0; after a report,
 * -EINVAL if the capacity is wrong, or the cache is NULL or was destroyed; or -ENOTSUP if it has no
 * sheaves. Take a lock. The kernel has no such calls.
 */
int kmem_cache_set_sheaf_capacity(struct kmem_cache *s, unsigned int capacity)
	SHEAF_SYMBOL(kmem_cache_set_sheaf_capacity);
int kmem_cache_set_barn(struct kmem_cache *s, size_t objects, size_t bytes)
	SHEAF_SYMBOL(kmem_cache_set_barn);

/*
 * Change how many empty slabs each memory node keeps for the next allocations: 0 ... 65535. A new
 * cache has 5 to 10, by the size of its objects. A slab that becomes empty while its node has as
 * many slabs with free objects is returned; slabs that are empty already return over time, or in
 * kmem_cache_shrink(). A merged cache changes under all its names. Returns 0; -EINVAL after a
 * report if there are more, or the cache is NULL or was destroyed. Safe while other threads use the
 * cache. Takes a lock. May sleep; not for signal handlers or `_nolock` contexts. O(1). Kernel: a
 * write to /sys/kernel/slab/NAME/min_partial.
 */
int kmem_cache_set_min_partial(struct kmem_cache *s, unsigned int slabs)
	SHEAF_SYMBOL(kmem_cache_set_min_partial);

/*
 * Limit the memory of a cache's slabs to this number of bytes; 0: none. At the limit, an allocation
 * with GFP_KERNEL empties the cache's sheaves, asks shrinkers (<sheaf/shrinker.h>), and then
 * returns NULL; with GFP_NOWAIT it returns NULL immediately; with __GFP_NOFAIL it waits. Free
 * objects of its sheaves and slabs count, prefilled sheaves too; objects between guard pages do
 * not. If the slabs already exceed the limit, the cache is shrunk, and a line reports what is still
 * above it; then no slab is added until the cache is below its limit. A merged cache is limited
 * under all its names, and no cache is merged with it from then on. Returns 0, or -EINVAL after a
 * report if the cache is NULL or was destroyed. Takes a lock. May sleep. O(1), or as
 * kmem_cache_shrink(). The kernel has no such call.
 */
int kmem_cache_set_limit(struct kmem_cache *s, size_t bytes) SHEAF_SYMBOL(kmem_cache_set_limit);

/* --- objects ---------------------------------------------------------------------------------- */

#if defined(__SANITIZE_THREAD__)
#define SHEAF_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SHEAF_TSAN 1
#endif
#endif
#ifndef SHEAF_TSAN
#define SHEAF_TSAN 0
#endif

/*
 * kmem_cache_alloc(), kmem_cache_free() and kmalloc() are in place, without a call, in optimised
 * code of an executable: see <sheaf/inline.h>. Code that is compiled with -fPIC makes the call,
 * because it may be part of a library that is unloaded. With SHEAF_INLINE it has them in place,
 * too, and promises to be linked with -z nodelete. SHEAF_NO_INLINE: always make the call.
 */
#if !defined(SHEAF_NO_INLINE) && !SHEAF_TSAN
#if defined(SHEAF_INLINE)
#define SHEAF_IN_PLACE 1
#elif defined(__OPTIMIZE__) && !defined(__OPTIMIZE_SIZE__)
#if !defined(__PIC__) || defined(__PIE__)
#define SHEAF_IN_PLACE 1
#endif
#endif
#endif
#ifdef SHEAF_IN_PLACE
#include <sheaf/inline.h>
#endif
/* Where that file has no sections for this machine, these always fail, and the compiler leaves only
 * the call. */
#ifndef SHEAF_HAS_SECTIONS
#define SHEAF_POP_INLINE(s)	     SHEAF_CAST(void *, 0)
#define SHEAF_PUSH_INLINE(s, object) (0)
#endif

/* Flags that the fast path can ignore. */
#define SHEAF_GFP_PLAIN 0xffu

/*
 * What compilers may assume of results. All are aligned to the word. A fresh block aliases no other
 * memory and contains no pointers; an object may contain some, from its constructor or its last
 * user. The size of a block is the requested size: see ksize().
 */
#define SHEAF_CHECK_RESULT __attribute__((__warn_unused_result__))
#define SHEAF_OBJECT	   SHEAF_CHECK_RESULT __attribute__((__assume_aligned__(8)))
#define SHEAF_FRESH	   SHEAF_OBJECT __attribute__((__malloc__))
#define SHEAF_SIZED(...)   __attribute__((__alloc_size__(__VA_ARGS__)))

/* What the next two call where they are not in place, or do nothing there. Other languages call
 * these as sheaf_kmem_cache_alloc() and sheaf_kmem_cache_free(). */
SHEAF_OBJECT void *__kmem_cache_alloc(struct kmem_cache *s, gfp_t flags)
	SHEAF_SYMBOL(kmem_cache_alloc);
void __kmem_cache_free(struct kmem_cache *s, void *object) SHEAF_SYMBOL(kmem_cache_free);

/*
 * Return an object, or NULL if there is no memory. Its content is undefined (constructed, if the
 * cache has a ctor). Sleeps only if the flags allow it. With rseq, the common case takes one
 * restartable section: no lock, no atomic instruction. O(1), and O(sheaf capacity) when a sheaf is
 * refilled.
 */
static __always_inline SHEAF_OBJECT void *kmem_cache_alloc(struct kmem_cache *s, gfp_t flags)
{
	void *object = flags & ~SHEAF_GFP_PLAIN ? NULL : SHEAF_POP_INLINE(s);

	return object ? object : __kmem_cache_alloc(s, flags);
}

/*
 * Free an object of this cache; NULL is allowed. If s is NULL, the object is reported and not
 * freed. The call never waits for memory. O(1), and O(sheaf capacity) when a sheaf is flushed.
 *
 * A pointer outside the memory of all caches is reported and not freed. Other mistakes (an object
 * of another cache, an address inside an object, an object that is already free) are reported when
 * the pointer's sheaf is flushed, or earlier. They are not found if the pointer is allocated again
 * before that. A cache with SLAB_CONSISTENCY_CHECKS, or with SHEAF_OPTIONS=hardened, reports them
 * immediately.
 */
static __always_inline void kmem_cache_free(struct kmem_cache *s, void *object)
{
	if (__builtin_expect(!s, 0) || !SHEAF_PUSH_INLINE(s, object))
		__kmem_cache_free(s, object);
}

/*
 * kmem_cache_alloc() of a zeroed object; O(its size). If the cache has a ctor, the call reports
 * that and does not clear the object. If s is NULL, it reports that and returns NULL.
 */
SHEAF_OBJECT void *kmem_cache_zalloc(struct kmem_cache *s, gfp_t flags)
	SHEAF_SYMBOL(kmem_cache_zalloc);

/*
 * Return an object on this memory node, or on another node if it has no memory; with
 * __GFP_THISNODE, NULL instead. NUMA_NO_NODE: the same as kmem_cache_alloc(). On a node other than
 * that of this CPU, the object comes from its slab, and the call briefly takes a lock.
 */
SHEAF_OBJECT void *kmem_cache_alloc_node(struct kmem_cache *s, gfp_t flags, int node)
	SHEAF_SYMBOL(kmem_cache_alloc_node);

/* kmem_cache_alloc(): there are no lists of objects for each group. */
struct list_lru;
static __always_inline SHEAF_OBJECT void *kmem_cache_alloc_lru(struct kmem_cache *s,
							       struct list_lru *lru, gfp_t flags)
{
	(void)lru;
	return kmem_cache_alloc(s, flags);
}

/*
 * Charge an object in use as if it had been allocated with __GFP_ACCOUNT: to the group of its
 * cache, or to the current group of the thread (<sheaf/group.h>). True if it is charged now, until
 * it is freed, was charged before, or nobody pays. False if a limit is reached or there is no
 * memory, and after a report if the pointer is not the start of an object in use, as krealloc()
 * finds it. A block of kmalloc() up to 1 MiB that was allocated without __GFP_ACCOUNT is not
 * charged, and the result is true, as in the kernel. May reclaim, if the flags allow it. Only the
 * owner of the object may make the call. O(1).
 */
SHEAF_CHECK_RESULT bool kmem_cache_charge(void *object, gfp_t flags)
	SHEAF_SYMBOL(kmem_cache_charge);

/*
 * Fill p[0] ... p[n-1] with objects, as by kmem_cache_alloc(): all of them (returns n, as int; at
 * most INT_MAX) or none (returns 0, and p[] is undefined). For n 0 it returns 0, too. O(n). Kernel:
 * returns n, too, and since 7.2 a bool. Code for either works here: the result compares to n, is
 * true if there are objects, and may be assigned to a bool. Only do not compare it to true.
 */
SHEAF_CHECK_RESULT int kmem_cache_alloc_bulk(struct kmem_cache *s, gfp_t flags, size_t n, void **p)
	SHEAF_SYMBOL(kmem_cache_alloc_bulk);

/* Free p[0] ... p[n-1], as by kmem_cache_free(). If s is NULL, each is freed to its own cache, as
 * by kfree(). O(n). */
void kmem_cache_free_bulk(struct kmem_cache *s, size_t n, void **p)
	SHEAF_SYMBOL(kmem_cache_free_bulk);

/* --- prefilled sheaves ------------------------------------------------------------------------
 *
 * Allocations that cannot fail: take the objects for the worst case in advance, cheaply and in one
 * call, and return the unused ones. The objects of a prefilled sheaf count as allocated; they are
 * freed like other objects. Only one thread (or signal handler) at a time may use a sheaf. Sizes of
 * sheaves are numbers of objects.
 */

struct slab_sheaf;

/*
 * Return a sheaf with at least `size` objects (1 ... 2147483647). Usually this is the CPU's spare
 * sheaf, as it is or refilled. Above the sheaf capacity, or if the cache has no sheaves, the sheaf
 * is made for this call and has exactly `size` objects. __GFP_ZERO and __GFP_THISNODE have no
 * effect here. If objects are to be charged (<sheaf/group.h>), O(size) more; and pass __GFP_ACCOUNT
 * here, too, unless the cache has SLAB_ACCOUNT: otherwise the calls below do not charge an object
 * if there is no memory to store its group. NULL if there is no memory, for size 0, and after a
 * report for a larger size. O(1) if the spare has enough, else O(capacity).
 */
SHEAF_CHECK_RESULT struct slab_sheaf *kmem_cache_prefill_sheaf(struct kmem_cache *s, gfp_t gfp,
							       unsigned int size)
	SHEAF_SYMBOL(kmem_cache_prefill_sheaf);

/*
 * Refill a sheaf to at least `size` objects; *sheafp may be replaced by another sheaf. Returns 0;
 * -ENOMEM if there is no memory, in which case the sheaf keeps its objects and stays usable;
 * -EINVAL after a report if there is no sheaf, or `size` is above 2147483647. O(missing objects).
 */
SHEAF_CHECK_RESULT int kmem_cache_refill_sheaf(struct kmem_cache *s, gfp_t gfp,
					       struct slab_sheaf **sheafp, unsigned int size)
	SHEAF_SYMBOL(kmem_cache_refill_sheaf);

/*
 * Return a sheaf with its remaining objects; NULL is allowed. If this CPU has no spare sheaf, as is
 * usual after taking it, the sheaf becomes the spare in O(1). Otherwise it is refilled for the
 * barn, if gfp allows any reclaim, or flushed to the slabs, in O(capacity).
 */
void kmem_cache_return_sheaf(struct kmem_cache *s, gfp_t gfp, struct slab_sheaf *sheaf)
	SHEAF_SYMBOL(kmem_cache_return_sheaf);

/* The first fields of a prefilled sheaf. Only the inline call below reads them. */
struct sheaf_lent {
	uint64_t left;
	uint64_t unused0;
	struct kmem_cache *by;
	uint64_t unused1;
	void *objects[1]; /* as many as it has */
};

/* The slow path of the next call: for an empty sheaf, unusual flags, or a wrong sheaf. */
SHEAF_OBJECT void *__kmem_cache_alloc_from_sheaf(struct kmem_cache *s, gfp_t gfp,
						 struct slab_sheaf *sheaf)
	SHEAF_SYMBOL(__kmem_cache_alloc_from_sheaf);

/*
 * Return an object of the sheaf, or NULL if the sheaf is empty. It pops from private memory: it
 * never fails before the sheaf is empty, and never waits. O(1). It ignores all flags in gfp except
 * __GFP_ZERO and __GFP_ACCOUNT; a charge may exceed the group's limit. Async-signal-safe.
 */
static __always_inline SHEAF_OBJECT void *
kmem_cache_alloc_from_sheaf(struct kmem_cache *s, gfp_t gfp, struct slab_sheaf *sheaf)
{
	struct sheaf_lent *lent = SHEAF_CAST(struct sheaf_lent *, SHEAF_CAST(void *, sheaf));

	if (sheaf && lent->left && lent->by == s && !(gfp & ~SHEAF_GFP_PLAIN))
		return lent->objects[--lent->left];
	return __kmem_cache_alloc_from_sheaf(s, gfp, sheaf);
}

/* Return the number of objects left in the sheaf; 0 for NULL and, after a report, for a sheaf that
 * was returned. Async-signal-safe, O(1). */
unsigned int kmem_cache_sheaf_size(struct slab_sheaf *sheaf) SHEAF_SYMBOL(kmem_cache_sheaf_size);

/* --- any context ------------------------------------------------------------------------------
 *
 * These two calls never wait or spin, and only try locks. They are async-signal-safe, even in a
 * handler that interrupted this library at any point, and may be called in an RCU callback.
 * Ordinary calls may free objects that they allocated, and the other way round.
 */

/*
 * Return an object from this CPU's sheaves, the node's barn, a slab with free objects, or a new
 * slab; or NULL if none is available without waiting for a lock. No new slab is made for a cache
 * with a constructor or checks (slab_debug), or with SLAB_SECRET, nor on a node where the cache
 * never had one. The call ignores all flags in gfp except __GFP_ZERO and __GFP_ACCOUNT; also NULL
 * if the limit of a group stops the charge. O(nodes). Kernel: kmalloc_nolock() alone.
 */
SHEAF_OBJECT void *kmem_cache_alloc_nolock(struct kmem_cache *s, gfp_t gfp)
	SHEAF_SYMBOL(kmem_cache_alloc_nolock);

/*
 * Free an object; NULL is allowed. The object is free when the call returns. If its slab must be
 * put on a list that another thread is changing, the cache's next slow path, shrink or destroy does
 * that; until then no call allocates from that slab. O(1), and O(sheaf capacity) if another thread
 * used the same CPU's sheaves meanwhile.
 */
void kmem_cache_free_nolock(struct kmem_cache *s, void *object)
	SHEAF_SYMBOL(kmem_cache_free_nolock);

/*
 * Return whether an address belongs to the library. For programs that mix pointers from malloc()
 * and kmalloc():
 *
 *     sheaf_owns(p) ? kfree(p) : free(p);
 *
 * True for every address in an object and in a block of kmalloc() or kvmalloc(), from the first
 * byte up to the size that ksize() returns, and in free memory of the library. Freed memory still
 * belongs to the library, even if it is in use again, so that kfree() can detect a double free; but
 * a freed block above 1 MiB does not: the system may have its addresses back. True for
 * ZERO_SIZE_PTR, which kmalloc() returns. False for NULL, for a struct kmem_cache itself, and for
 * all other addresses, mapped or not. The call does not access the address.
 *
 * While another thread frees a block, the result for that block may be either. Takes no lock, never
 * waits, and is async-signal-safe. O(1). The kernel's is_vmalloc_addr() and virt_addr_valid()
 * answer similar questions.
 */
bool sheaf_owns(const void *address) SHEAF_SYMBOL(sheaf_owns);

#ifdef __cplusplus
}
#endif

#include <sheaf/kmalloc.h>

#endif
