/* SPDX-License-Identifier: MIT */
/*
 * Whole pages, with the names of the Linux kernel. Included by <sheaf/slab.h>.
 *
 *     char *table = vzalloc(bytes);
 *     table = vrealloc(table, 2 * bytes, GFP_KERNEL | __GFP_ZERO);
 *     vfree(table);
 *
 * They return at least the requested bytes, of any size that the system grants, aligned to 4096;
 * NULL for 0 bytes, and if there is no memory. The blocks are those of kvmalloc() in
 * <sheaf/kmalloc.h>: each call that frees or resizes one of these takes one of those, and the other
 * way round. Calls without flags use GFP_KERNEL. A node is that of kmalloc_node(). Kernel: the
 * pages need not be contiguous in physical memory; here programs cannot see that.
 */
#ifndef SHEAF_VMALLOC_H
#define SHEAF_VMALLOC_H

#include <sheaf/kmalloc.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Pages on this node, aligned to `align`, a power of two up to 1 GiB; NULL, after a report, for any
 * other. With several sets of caches, the code at this address chooses the set; NULL: the code that
 * called.
 */
SHEAF_FRESH SHEAF_SIZED(1) void *__vmalloc_node(size_t size, unsigned long align, gfp_t flags,
						int node, const void *caller)
	SHEAF_SYMBOL(__vmalloc_node);

static __always_inline SHEAF_FRESH SHEAF_SIZED(1) void *__vmalloc(size_t size, gfp_t flags)
{
	return __vmalloc_node(size, 1, flags, NUMA_NO_NODE, NULL);
}

static __always_inline SHEAF_FRESH SHEAF_SIZED(1) void *vmalloc(size_t size)
{
	return __vmalloc(size, GFP_KERNEL);
}

/* Zeroed. vmalloc_user() is the same: all memory is the user's here. */
static __always_inline SHEAF_FRESH SHEAF_SIZED(1) void *vzalloc(size_t size)
{
	return __vmalloc(size, GFP_KERNEL | __GFP_ZERO);
}

static __always_inline SHEAF_FRESH SHEAF_SIZED(1) void *vmalloc_user(size_t size)
{
	return vzalloc(size);
}

static __always_inline SHEAF_FRESH SHEAF_SIZED(1) void *vmalloc_node(size_t size, int node)
{
	return __vmalloc_node(size, 1, GFP_KERNEL, node, NULL);
}

static __always_inline SHEAF_FRESH SHEAF_SIZED(1) void *vzalloc_node(size_t size, int node)
{
	return __vmalloc_node(size, 1, GFP_KERNEL | __GFP_ZERO, node, NULL);
}

/* The same as __vmalloc() and __vmalloc_node(): the library asks the system for huge pages where
 * they fit, whichever call allocates. */
static __always_inline SHEAF_FRESH SHEAF_SIZED(1) void *vmalloc_huge(size_t size, gfp_t flags)
{
	return __vmalloc(size, flags);
}

static __always_inline SHEAF_FRESH SHEAF_SIZED(1) void *vmalloc_huge_node(size_t size, gfp_t flags,
									  int node)
{
	return __vmalloc_node(size, 1, flags, node, NULL);
}

/* n * size bytes; NULL if the product overflows. vcalloc() zeroes them. */
static __always_inline SHEAF_FRESH SHEAF_SIZED(1, 2) void *__vmalloc_array(size_t n, size_t size,
									   gfp_t flags)
{
	size_t bytes;

	return __builtin_mul_overflow(n, size, &bytes) ? NULL : __vmalloc(bytes, flags);
}

static __always_inline SHEAF_FRESH SHEAF_SIZED(1, 2) void *vmalloc_array(size_t n, size_t size)
{
	return __vmalloc_array(n, size, GFP_KERNEL);
}

static __always_inline SHEAF_FRESH SHEAF_SIZED(1, 2) void *__vcalloc(size_t n, size_t size,
								     gfp_t flags)
{
	return __vmalloc_array(n, size, flags | __GFP_ZERO);
}

static __always_inline SHEAF_FRESH SHEAF_SIZED(1, 2) void *vcalloc(size_t n, size_t size)
{
	return __vcalloc(n, size, GFP_KERNEL);
}

/*
 * kvrealloc_node_align() to whole pages, for any size that the system grants. It never moves to
 * memory that is not page-aligned. If size is 0, it frees the block and returns NULL.
 */
SHEAF_OBJECT SHEAF_SIZED(2) void *vrealloc_node_align(const void *block, size_t size,
						      unsigned long align, gfp_t flags, int node)
	SHEAF_SYMBOL(vrealloc_node_align);

static __always_inline SHEAF_OBJECT SHEAF_SIZED(2) void *vrealloc_node(const void *block,
								       size_t size, gfp_t flags,
								       int node)
{
	return vrealloc_node_align(block, size, 1, flags, node);
}

static __always_inline SHEAF_OBJECT SHEAF_SIZED(2) void *vrealloc(const void *block, size_t size,
								  gfp_t flags)
{
	return vrealloc_node_align(block, size, 1, flags, NUMA_NO_NODE);
}

/* As kfree(). Kernel: vfree() may sleep, and vfree_atomic() does not; here no free waits for
 * memory. */
static __always_inline void vfree(const void *block)
{
	kfree(block);
}

static __always_inline void vfree_atomic(const void *block)
{
	kfree(block);
}

#ifdef __cplusplus
}
#endif

#endif
