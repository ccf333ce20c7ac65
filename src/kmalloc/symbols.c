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

SYMBOL(kcalloc);
SYMBOL(kcalloc_node);
SYMBOL(kfree_bulk);
SYMBOL(kmalloc_array);
SYMBOL(kmalloc_array_node);
SYMBOL(krealloc_array);
SYMBOL(kvcalloc);
SYMBOL(kvcalloc_node);
SYMBOL(kvfree);
SYMBOL(kvmalloc);
SYMBOL(kvmalloc_array);
SYMBOL(kvmalloc_array_node);
SYMBOL(kvzalloc);
SYMBOL(kzalloc);
SYMBOL(kzalloc_node);
SYMBOL(vfree);
SYMBOL(vmalloc);
SYMBOL(vzalloc);

SYMBOL(kmem_group_create);
SYMBOL(kmem_group_set_limits);
SYMBOL(kmem_group_stats);

SYMBOL(mempool_initialized);
