/* SPDX-License-Identifier: MIT */
/* Shared by the tests of documented behaviour: ranges.c, searches.c and so on, with one test per
 * behaviour. */
#ifndef TESTS_MAPLE_BEHAVIOUR_H
#define TESTS_MAPLE_BEHAVIOUR_H

#include <errno.h>
#include <sheaf/stats.h>
#include <stdint.h>
#include <string.h>

#include "../../src/tree.h"
#include "kit/cache.h"
#include "kit/provider.h"
#include "kit/unit.h"

#define ENTRY(i) ((void *)(uintptr_t)(0x10000 + 16 * (uintptr_t)(i)))

static inline void store(struct maple_tree *mt, unsigned long first, unsigned long last,
			 void *entry)
{
	assert_int_equal(mtree_store_range(mt, first, last, entry, GFP_KERNEL), 0);
}

static inline void done(struct maple_tree *mt)
{
	assert_int_equal(mt_validate(mt), 0);
	mtree_destroy(mt);
	assert_true(mtree_empty(mt));
	assert_true(all_freed(node_cache()));
}

/* n ranges of 5 indices, each after 5 free ones: 5 ... 9, 15 ... 19, ... */
static inline void fill(struct maple_tree *mt, unsigned int n)
{
	for (unsigned long i = 0; i < n; i++)
		store(mt, 10 * i + 5, 10 * i + 9, ENTRY(i));
	assert_int_equal(mt_validate(mt), 0);
}

#endif
