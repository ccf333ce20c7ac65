/* SPDX-License-Identifier: MIT */
/*
 * All bits of the flags of caches (slab_flags_t) and of allocations (gfp_t): those of
 * <sheaf/slab.h> from below, those of the library from above. So a later version can add some of
 * either kind, and a program's flags never mean one of the library's.
 *
 * Callers: src/debug/, src/cache/.
 */
#ifndef SHEAF_DEBUG_FLAGS_H
#define SHEAF_DEBUG_FLAGS_H

#include <sheaf/slab.h>
#include <stdint.h>

/* --- caches ----------------------------------------------------------------------------------- */

#define SLAB_PUBLIC_BITS 0x000fffffu
#define SLAB_PUBLIC_FLAGS(X)                                                                       \
	X(SLAB_HWCACHE_ALIGN)                                                                      \
	X(SLAB_PANIC)                                                                              \
	X(SLAB_NO_MERGE)                                                                           \
	X(SLAB_NO_SHEAVES)                                                                         \
	X(SLAB_RECLAIM_ACCOUNT)                                                                    \
	X(SLAB_ACCOUNT)                                                                            \
	X(SLAB_TYPESAFE_BY_RCU)                                                                    \
	X(SLAB_CONSISTENCY_CHECKS)                                                                 \
	X(SLAB_RED_ZONE)                                                                           \
	X(SLAB_POISON)                                                                             \
	X(SLAB_STORE_USER)                                                                         \
	X(SLAB_TRACE)                                                                              \
	X(SLAB_FAILSLAB)                                                                           \
	X(SLAB_NO_USER_FLAGS)                                                                      \
	X(SLAB_SECRET)

/* O, only in flags that come from letters: do without letters that would make slabs larger. */
#define DEBUG_NOT_LARGER (1u << 31)
/* G: each object between guard pages, as long as there is room for them (guard.h). */
#define DEBUG_GUARD (1u << 30)
/* S: one in slab_sample bytes, of a cache that keeps its sheaves (sample.h). */
#define DEBUG_SAMPLE (1u << 29)
/* Q: freed objects go into quarantine (quarantine.c). */
#define DEBUG_QUARANTINE (1u << 28)
/* A debug cache: src/debug/ sees each of its objects. */
#define CACHE_DEBUG (1u << 27)
/* A cache of kmalloc(), whose objects are freed with kfree(). */
#define CACHE_KMALLOC (1u << 26)
/* Hardened caches: see cache/hardened.h. */
#define CACHE_ZERO_FREE	 (1u << 25)
#define CACHE_ZERO_ALLOC (1u << 24)
#define CACHE_MARKED	 (1u << 23)
#define CACHE_CHECK_FREE (1u << 22)
#define CACHE_CHECK_POP	 (1u << 21)
/* A program built with the thread sanitizer: fast paths of hardened caches annotate objects. */
#define CACHE_TSAN (1u << 20)
#define SLAB_PRIVATE_FLAGS(X)                                                                      \
	X(DEBUG_NOT_LARGER)                                                                        \
	X(DEBUG_GUARD)                                                                             \
	X(DEBUG_SAMPLE)                                                                            \
	X(DEBUG_QUARANTINE)                                                                        \
	X(CACHE_DEBUG)                                                                             \
	X(CACHE_KMALLOC)                                                                           \
	X(CACHE_ZERO_FREE)                                                                         \
	X(CACHE_ZERO_ALLOC)                                                                        \
	X(CACHE_MARKED)                                                                            \
	X(CACHE_CHECK_FREE)                                                                        \
	X(CACHE_CHECK_POP)                                                                         \
	X(CACHE_TSAN)

/* --- allocations ------------------------------------------------------------------------------ */

/* The library has none of its own. */
#define GFP_PUBLIC_BITS 0x00ffffffu
#define GFP_PUBLIC_FLAGS(X)                                                                        \
	X(__GFP_DIRECT_RECLAIM)                                                                    \
	X(__GFP_KSWAPD_RECLAIM)                                                                    \
	X(__GFP_HIGH)                                                                              \
	X(__GFP_NOWARN)                                                                            \
	X(__GFP_NORETRY)                                                                           \
	X(__GFP_RETRY_MAYFAIL)                                                                     \
	X(__GFP_IO)                                                                                \
	X(__GFP_FS)                                                                                \
	X(__GFP_ZERO)                                                                              \
	X(__GFP_THISNODE)                                                                          \
	X(__GFP_NOFAIL)                                                                            \
	X(__GFP_ACCOUNT)

/* --- sums ------------------------------------------------------------------------------------- */

#define FLAG_OR(flag)  | (flag)
#define FLAG_ADD(flag) +(uint64_t)(flag)
/* All flags of a list, and whether each has a bit that no other one has. */
#define FLAGS_OF(LIST)	   (0u LIST(FLAG_OR))
#define FLAGS_DIFFER(LIST) ((0u LIST(FLAG_OR)) == (0u LIST(FLAG_ADD)))

_Static_assert(FLAGS_DIFFER(SLAB_PUBLIC_FLAGS) && FLAGS_DIFFER(SLAB_PRIVATE_FLAGS) &&
		       FLAGS_DIFFER(GFP_PUBLIC_FLAGS),
	       "no two flags share a bit");
_Static_assert(!(FLAGS_OF(SLAB_PUBLIC_FLAGS) & ~SLAB_PUBLIC_BITS) &&
		       !(FLAGS_OF(SLAB_PRIVATE_FLAGS) & SLAB_PUBLIC_BITS) &&
		       !(FLAGS_OF(GFP_PUBLIC_FLAGS) & ~GFP_PUBLIC_BITS),
	       "programs have the lower bits, the library the upper ones");

#endif
