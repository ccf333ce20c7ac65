/* SPDX-License-Identifier: MIT */
/* Blocks from kmalloc(). */
#ifndef SHEAF_TESTS_BLOCKS_H
#define SHEAF_TESTS_BLOCKS_H

#include <sheaf/kmalloc.h>

#include "kit/options.h"

/* kmalloc(), also where each object is a sample: samples are in no slab, and on no node. */
static inline void *kmalloc_in_slab(size_t size)
{
	return has_debug_letter('S') ? kmalloc_node(size, GFP_KERNEL | __GFP_THISNODE, 0)
				     : kmalloc(size, GFP_KERNEL);
}

/* What ksize() returns if this many bytes of a block were requested: a checked cache guards the
 * rest. */
static inline size_t usable(size_t requested, size_t block)
{
	void *probe = kmalloc_in_slab(13);
	bool checked = ksize(probe) == 13;

	kfree(probe);
	return checked && block && block <= KMALLOC_MAX_CACHE_SIZE ? requested : block;
}

#endif
