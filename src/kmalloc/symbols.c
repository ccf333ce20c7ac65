/* SPDX-License-Identifier: MIT */
/*
 * Symbols for the inline functions of the headers, for callers that cannot inline C, such as Rust,
 * Go or Python.
 *
 * Each symbol is another name for the header's function, so nothing is written twice. A test finds
 * inline functions that are missing in the list. Callers: programs, through a foreign-function
 * interface.
 */
#include <sheaf/group.h>
#include <sheaf/mempool.h>

#include "cache/cache.h"

/* gcc requires a function's attributes to be repeated for its other name. */
#if __has_attribute(__copy__)
#define SAME_ATTRIBUTES(name) __attribute__((__copy__(name)))
#else
#define SAME_ATTRIBUTES(name)
#endif

#define SYMBOL(name)                                                                               \
	extern __typeof__(name) symbol_of_##name SHEAF_SYMBOL(name)                                \
		__attribute__((alias(#name), visibility("default"))) SAME_ATTRIBUTES(name)

SYMBOL(gfp_has_io_fs);
SYMBOL(gfpflags_allow_blocking);
SYMBOL(gfpflags_allow_spinning);
SYMBOL(kmem_cache_alloc_from_sheaf);
SYMBOL(kmem_cache_alloc_lru);
SYMBOL(slab_is_available);

SYMBOL(kasprintf_strarray);
SYMBOL(kcalloc);
SYMBOL(kcalloc_node);
SYMBOL(kfree_bulk);
SYMBOL(kfree_strarray);
SYMBOL(kmalloc_array);
SYMBOL(kmalloc_array_node);
SYMBOL(kmalloc_node_track_caller);
SYMBOL(kmalloc_track_caller);
SYMBOL(kmem_buckets_alloc_track_caller);
SYMBOL(kmemdup_array);
SYMBOL(krealloc_array);
SYMBOL(krealloc_node);
SYMBOL(kstrdup_and_replace);
SYMBOL(kvcalloc);
SYMBOL(kvcalloc_node);
SYMBOL(kvfree);
SYMBOL(kvfree_atomic);
SYMBOL(kvmalloc);
SYMBOL(kvmalloc_array);
SYMBOL(kvmalloc_array_node);
SYMBOL(kvmemdup);
SYMBOL(kvrealloc_node);
SYMBOL(kvzalloc);
SYMBOL(kvzalloc_node);
SYMBOL(kzalloc);
SYMBOL(kzalloc_node);
SYMBOL(vcalloc);
SYMBOL(vfree);
SYMBOL(vfree_atomic);
SYMBOL(vmalloc);
SYMBOL(vmalloc_array);
SYMBOL(vmalloc_huge);
SYMBOL(vmalloc_huge_node);
SYMBOL(vmalloc_node);
SYMBOL(vmalloc_user);
SYMBOL(vrealloc);
SYMBOL(vrealloc_node);
SYMBOL(vzalloc);
SYMBOL(vzalloc_node);

SYMBOL(kmem_group_create);
SYMBOL(kmem_group_set_limits);
SYMBOL(kmem_group_stats);

SYMBOL(mempool_initialized);
