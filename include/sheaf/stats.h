/* SPDX-License-Identifier: MIT */
/*
 * Statistics of caches: the numbers of objects and slabs, and, with SHEAF_OPTIONS=stats, the number
 * of events of each kind.
 *
 *     struct kmem_cache_stats stats;
 *
 *     if (kmem_cache_stats(cache, &stats) == 0)
 *         printf("%llu in use\n", (unsigned long long)stats.objects_in_use);
 *     sheaf_stats_print(2, SHEAF_STATS_TEXT);
 *
 * Names are those of the kernel's /sys/kernel/slab. Each number is exact if no other thread uses
 * the cache during the call. Otherwise it is approximate, because the calls do not stop or slow
 * other threads.
 *
 * Any thread may make these calls at any time, even in a forked child, but a signal handler may
 * not. They may wait for the lock that creating and destroying caches takes. errno is preserved.
 */
#ifndef SHEAF_STATS_H
#define SHEAF_STATS_H

#include <sheaf/slab.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of the longest name of a cache, with the zero byte at its end. */
#define SHEAF_STATS_NAME 128

/* It may grow at its end: kmem_cache_stats() passes its size. */
struct kmem_cache_stats {
	char name[SHEAF_STATS_NAME];
	uint64_t id; /* 1, 2, ... in the order of creation: two caches may have one name */

	/* What the cache is like. */
	uint64_t object_size;	  /* bytes of an object, as requested */
	uint64_t slab_size;	  /* bytes from object to object */
	uint64_t align;		  /* alignment of objects in bytes */
	uint64_t objs_per_slab;	  /* objects of a slab */
	uint64_t order;		  /* a slab has 2^order pages */
	uint64_t sheaf_capacity;  /* objects of a new sheaf, 0 without sheaves */
	uint64_t min_partial;	  /* empty slabs a node keeps */
	uint64_t aliases;	  /* further names that share the cache */
	uint64_t hwcache_align;	  /* 1 if objects are aligned to cache lines */
	uint64_t reclaim_account; /* 1 if objects can be reclaimed */
	uint64_t account;	  /* 1 if allocations are charged */
	uint64_t ctor;		  /* 1 if objects are constructed */
	uint64_t destroyed;	  /* 1 if destroyed while objects were in use */

	/* What it has now. */
	uint64_t objects;	      /* objects in use, in sheaves, or pending */
	uint64_t objects_in_use;      /* objects that the program uses */
	uint64_t objects_in_sheaves;  /* free objects in sheaves */
	uint64_t total_objects;	      /* objects that slabs have room for */
	uint64_t slabs;		      /* slabs */
	uint64_t partial;	      /* slabs on the lists of partial slabs */
	uint64_t slab_bytes;	      /* bytes of memory of slabs */
	uint64_t waste_bytes;	      /* bytes of slabs that no object can use */
	uint64_t peak_slab_bytes;     /* most slab_bytes so far, 0 unless counted */
	uint64_t barn_full;	      /* full sheaves in barns */
	uint64_t barn_empty;	      /* empty sheaves in barns */
	uint64_t rcu_pending_objects; /* objects that wait for a grace period */
	uint64_t rcu_pending_bytes;   /* bytes of objects that wait for a grace period */

	/* What happened since the cache was created; all 0 unless counted is 1. */
	uint64_t counted;
	uint64_t alloc_fastpath;	 /* objects from this CPU's sheaves */
	uint64_t alloc_slowpath;	 /* objects straight from slabs */
	uint64_t free_fastpath;		 /* objects into this CPU's sheaves */
	uint64_t free_slowpath;		 /* objects straight to slabs */
	uint64_t free_add_partial;	 /* full slabs that got a free object */
	uint64_t free_remove_partial;	 /* empty slabs taken off their list */
	uint64_t alloc_slab;		 /* slabs made of fresh pages */
	uint64_t free_slab;		 /* slabs returned as pages */
	uint64_t alloc_node_mismatch;	 /* requests for a node that bypassed sheaves */
	uint64_t order_fallback;	 /* slabs of the fallback order */
	uint64_t cmpxchg_double_fail;	 /* lost races for a slab's word */
	uint64_t sheaf_flush;		 /* objects from sheaves to slabs */
	uint64_t sheaf_refill;		 /* objects from slabs into sheaves */
	uint64_t sheaf_alloc;		 /* sheaves made */
	uint64_t sheaf_free;		 /* sheaves freed */
	uint64_t barn_get;		 /* full sheaves from a barn */
	uint64_t barn_get_fail;		 /* times a barn had no full sheaf */
	uint64_t barn_put;		 /* full sheaves into a barn */
	uint64_t barn_put_fail;		 /* times a barn had no room for a full sheaf */
	uint64_t barn_get_empty;	 /* empty sheaves from a barn */
	uint64_t barn_put_empty;	 /* empty sheaves into a barn */
	uint64_t barn_replace_empty;	 /* empty sheaves exchanged for full ones */
	uint64_t barn_replace_full;	 /* full sheaves exchanged for empty ones */
	uint64_t replace_empty_main;	 /* allocations that found main and spare empty */
	uint64_t replace_full_main;	 /* frees that found main and spare full */
	uint64_t free_rcu_sheaf;	 /* objects retired into a CPU's rcu_free sheaf */
	uint64_t free_rcu_sheaf_fail;	 /* objects retired without such a sheaf */
	uint64_t rcu_reuse;		 /* full sheaves taken after their grace period */
	uint64_t rcu_flush;		 /* objects to slabs after their grace period */
	uint64_t rcu_over_limit;	 /* times pending bytes were above the limit */
	uint64_t sheaf_prefill_fast;	 /* sheaves prefilled from this CPU's spare */
	uint64_t sheaf_prefill_slow;	 /* sheaves prefilled from a barn or slabs */
	uint64_t sheaf_prefill_oversize; /* sheaves prefilled beyond the capacity */
	uint64_t sheaf_return_fast;	 /* prefilled sheaves that became a spare */
	uint64_t sheaf_return_slow;	 /* prefilled sheaves that went to a barn or slabs */
	uint64_t nolock_fail;		 /* nolock allocations that returned NULL */
	uint64_t nolock_deferred;	 /* slabs that a nolock free left unlisted */

	/* Added later. */
	uint64_t limit_bytes;	  /* most slab_bytes, 0: no limit */
	uint64_t limit_failures;  /* allocations that failed at the limit */
	uint64_t usersize;	  /* bytes of an object that may be copied to users */
	uint64_t destroy_by_rcu;  /* 1 if slabs are freed after a grace period */
	uint64_t objects_partial; /* objects in use of slabs on these lists */
	uint64_t sanity_checks;	  /* 1 if each call is checked: slab_debug=F */
	uint64_t red_zone;	  /* 1 if objects have red zones: slab_debug=Z */
	uint64_t poison;	  /* 1 if free objects are poisoned: slab_debug=P */
	uint64_t store_user;	  /* 1 if users of objects are recorded: slab_debug=U */
	uint64_t trace;		  /* 1 if each call is reported: slab_debug=T */
	uint64_t failslab;	  /* 1 if allocations are made to fail: slab_debug=A */
	uint64_t limit_barn_full; /* full sheaves that a node's barn may hold */
	/* Of sheaf_capacity, limit_barn_full, limit_bytes, min_partial and limit_barn_empty, the
	 * first in the lowest bits: 0 the library, 1 the program, 2 SHEAF_OPTIONS, 3 `sheaf tune`.
	 */
	uint64_t set_by;	   /* who set what, two bits each */
	uint64_t barn_partial;	   /* partly filled sheaves in barns */
	uint64_t prefill_slot;	   /* objects of prefills from this CPU's sheaves */
	uint64_t prefill_barn;	   /* objects of prefills from barns */
	uint64_t prefill_slab;	   /* objects of prefills from slabs */
	uint64_t limit_barn_empty; /* empty sheaves kept in a barn; 0: all */
};

/* Structures and calls share names, as in the kernel; C++ compilers may warn that this hides a
 * constructor. */
#if defined(__cplusplus) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

int __kmem_cache_stats(struct kmem_cache *s, struct kmem_cache_stats *out, size_t size)
	SHEAF_SYMBOL(__kmem_cache_stats);

/*
 * Return the statistics of a cache. Returns 0, or -EINVAL after a report if the cache is NULL or
 * was destroyed; *out is then all zero. O(pages the library uses + CPUs). The kernel has no such
 * call.
 */
static __always_inline int kmem_cache_stats(struct kmem_cache *s, struct kmem_cache_stats *out)
{
	return __kmem_cache_stats(s, out, sizeof(*out));
}

/* The library in this process. It may grow, too. */
struct sheaf_stats {
	uint64_t counted;	      /* 1 if events are counted */
	uint64_t caches;	      /* number of caches */
	uint64_t cpus;		      /* number of sets of sheaves per cache */
	uint64_t nodes;		      /* number of memory nodes */
	uint64_t committed_bytes;     /* made usable for slabs and the library itself */
	uint64_t used_bytes;	      /* part of committed_bytes that is in use */
	uint64_t free_bytes;	      /* free, but not yet returned; freed mappings, too */
	uint64_t fork_lost;	      /* sheaves that this process lost in a fork */
	uint64_t mapped_bytes;	      /* in large blocks in use, not committed_bytes */
	uint64_t rcu_bytes;	      /* retired, not yet freed or allocated again */
	uint64_t split_mappings;      /* added when parts of huge pages were returned */
	uint64_t split_limit;	      /* most such mappings: vm.max_map_count / 4 */
	uint64_t resident_bytes;      /* of the whole process, not of the library alone */
	uint64_t peak_resident_bytes; /* most resident_bytes so far */
	uint64_t peak_bytes;	      /* most used_bytes + mapped_bytes, 0 unless counted */
	uint64_t sheaf_bytes;	      /* bytes of objects for which sheaves have room */
	uint64_t sheaf_budget;	      /* sheaf_bytes above which barns store no sheaves */
	uint64_t returned_bytes;      /* of free_bytes, returned to the system so far */
	uint64_t held_bytes;	      /* used_bytes, free_bytes and mapped_bytes */
	uint64_t soft_limit;	      /* held_bytes above which it reclaims, 0: none */
	uint64_t hard_limit;	      /* held_bytes above which allocations fail, 0: none */
	uint64_t limit_failures;      /* allocations that failed at the hard limit */
	uint64_t shrinker_objects;    /* objects that shrinkers freed */
	uint64_t decay_ms;	      /* for which free memory stays, 4294967295: always */
	uint64_t decay_set_by;	      /* who set that, as in set_by above */
};

void __sheaf_stats(struct sheaf_stats *out, size_t size) SHEAF_SYMBOL(__sheaf_stats);

/* Return the statistics of the library; all zero before its first use. O(pages that it uses). */
static __always_inline void sheaf_stats(struct sheaf_stats *out)
{
	__sheaf_stats(out, sizeof(*out));
}

#if defined(__cplusplus) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

enum sheaf_stats_format {
	SHEAF_STATS_TEXT,	/* for people: no unused caches, no zeros; at most 100 columns */
	SHEAF_STATS_JSON,	/* one object */
	SHEAF_STATS_PROMETHEUS, /* the text exposition format, version 0.0.4 */
};

/*
 * Write the statistics of the process and all its caches to a file descriptor. No lock is held
 * while writing. Returns 0 or a negative error number: the error of write(2), -ENOMEM, or -EINVAL
 * for an unknown format. Raises no SIGPIPE and no SIGXFSZ. O(caches * CPUs + pages the library
 * uses).
 */
int sheaf_stats_print(int fd, enum sheaf_stats_format format) SHEAF_SYMBOL(sheaf_stats_print);

#ifdef __cplusplus
}
#endif

#endif
