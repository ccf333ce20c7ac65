/* SPDX-License-Identifier: MIT */
/* One cache without letters of slab_debug, and the objects that a single-threaded test took from
 * it. */
#ifndef SHEAF_TESTS_HELD_H
#define SHEAF_TESTS_HELD_H

#include "kit/cache.h"
#include "kit/process.h"
#include "kit/unit.h"

enum {
	MOST_HELD = 2400
};

static struct kmem_cache *s;
static void *held[MOST_HELD];

static inline void take(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		held[i] = kmem_cache_alloc(s, GFP_KERNEL);
		assert_non_null(held[i]);
	}
}

static inline void give(unsigned int from, unsigned int to)
{
	for (unsigned int i = from; i < to; i++)
		kmem_cache_free(s, held[i]);
}

static inline int set_up(void **state)
{
	(void)state;
	pin((unsigned int)sched_getcpu());
	s = kmem_cache_create("held", 64, NULL, SLAB_NO_MERGE | SLAB_NO_USER_FLAGS);
	return s ? 0 : -1;
}

static inline int tear_down(void **state)
{
	(void)state;
	kmem_cache_destroy(s);
	return 0;
}

#endif
