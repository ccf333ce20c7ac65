/* SPDX-License-Identifier: MIT */
/* The cache of a block from kmalloc(). */
#ifndef SHEAF_TESTS_INTERNAL_BLOCKS_H
#define SHEAF_TESTS_INTERNAL_BLOCKS_H

#include "cache/block.h"
#include "kit/blocks.h"
#include "kmalloc/kmalloc.h"

static inline struct kmem_cache *cache_of(const void *object)
{
	return block_of(object).cache;
}

#endif
