/* SPDX-License-Identifier: MIT */
/* Objects taken and given by nolock calls, and a cache that must be whole afterwards. */
#ifndef SHEAF_TESTS_NOLOCK_H
#define SHEAF_TESTS_NOLOCK_H

#include "kit/cache.h"
#include "kit/check.h"
#include "kit/unit.h"

enum {
	MANY = 3000
};

static void *held[MANY];

static inline void take(struct kmem_cache *s, unsigned int n)
{
	CHECK(kmem_cache_alloc_bulk(s, GFP_KERNEL, n, held) == (int)n);
}

static inline void all_is_there(struct kmem_cache *s)
{
	assert_int_equal(kmem_cache_verify(s), 0);
	assert_int_equal(look(s).objects_in_use, 0);
	assert_int_equal(kmem_cache_shrink(s), 0);
	kmem_cache_destroy(s);
}

/* Allocate as many as possible, into held[]. */
static inline unsigned int take_nolock(struct kmem_cache *s)
{
	unsigned int n = 0;

	while (n < MANY && (held[n] = kmem_cache_alloc_nolock(s, 0)) != NULL)
		n++;
	return n;
}

static inline void give_nolock(struct kmem_cache *s, unsigned int n)
{
	while (n)
		kmem_cache_free_nolock(s, held[--n]);
}

#endif
