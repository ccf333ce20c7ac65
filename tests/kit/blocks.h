/* SPDX-License-Identifier: MIT */
/* Blocks from kmalloc(): looking at them; one that is in a slab. */
#ifndef SHEAF_TESTS_BLOCKS_H
#define SHEAF_TESTS_BLOCKS_H

#include <sheaf/kmalloc.h>

#include "cache/block.h"
#include "kmalloc/kmalloc.h"
#include "os/machine.h"

static inline struct kmem_cache *cache_of(const void *object)
{
	return block_of(object).cache;
}

/* kmalloc(), also where each object is a sample: samples are in no slab, and on no node. */
static inline void *kmalloc_in_slab(size_t size)
{
	return kmalloc_node(size, GFP_KERNEL | __GFP_THISNODE, (int)os_node());
}

/* What ksize() says if so many bytes of a block were requested: a checked cache guards the rest.
 * Only after kmalloc() was used. */
static inline size_t usable(size_t requested, size_t block)
{
	bool checked = block && block <= KMALLOC_LARGEST &&
		       cache_is_checked(kmalloc_cache_made(kmalloc_index(8), NULL, 0, 0));

	return checked ? requested : block;
}

#endif
