/* SPDX-License-Identifier: MIT */
/* The statistics of a cache: how they change, and sums that are conserved. */
#ifndef SHEAF_TESTS_SUMS_H
#define SHEAF_TESTS_SUMS_H

#include "kit/cache.h"
#include "kit/unit.h"

/* How much a counter changed since `before`. */
#define MOVED(before, name) (look(s).name - (before).name)

/* Invariants of every quiet cache. */
static inline void check_sums(struct kmem_cache *cache, uint64_t in_use)
{
	struct kmem_cache_stats stats = look(cache);

	assert_int_equal(kmem_cache_verify(cache), 0);
	assert_int_equal(stats.objects_in_use, in_use);
	assert_int_equal(stats.objects, stats.objects_in_use + stats.objects_in_sheaves);
	if (!stats.counted)
		return;
	assert_int_equal(stats.alloc_fastpath + stats.alloc_slowpath - stats.free_fastpath -
				 stats.free_slowpath,
			 stats.objects_in_use);
	assert_int_equal(stats.sheaf_refill - stats.sheaf_flush + stats.free_fastpath -
				 stats.alloc_fastpath,
			 stats.objects_in_sheaves);
	assert_int_equal(stats.alloc_slab - stats.free_slab, stats.slabs);
}

#endif
