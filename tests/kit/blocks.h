/* SPDX-License-Identifier: MIT */
/* Looks at what kmalloc() returned. */
#ifndef SHEAF_TESTS_BLOCKS_H
#define SHEAF_TESTS_BLOCKS_H

#include "cache/block.h"
#include "kmalloc/kmalloc.h"
#include "os/options.h"

static inline struct kmem_cache *cache_of(const void *object)
{
	return block_of(object).cache;
}

/* What ksize() says if so many bytes of a block were requested: a checked cache guards the rest. */
static inline size_t usable(size_t requested, size_t block)
{
	return *os_options.slab_debug && block <= KMALLOC_LARGEST ? requested : block;
}

#endif
