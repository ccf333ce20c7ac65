/* SPDX-License-Identifier: MIT */
/* Looks at what kmalloc() returned. */
#ifndef SHEAF_TESTS_BLOCKS_H
#define SHEAF_TESTS_BLOCKS_H

#include "cache/block.h"

static inline struct kmem_cache *cache_of(const void *object)
{
	return block_of(object).cache;
}

#endif
