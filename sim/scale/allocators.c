/* SPDX-License-Identifier: MIT */
/* See allocators.h; names are those of the benchmarks (bench/allocators/). */
#include "sim/scale/allocators.h"

#include <sheaf/slab.h>

#include "cpu_slab.h"

static void *open_sheaf(size_t size)
{
	return kmem_cache_create("scale", (unsigned int)size, NULL, SLAB_NO_MERGE);
}

static void *open_no_sheaf(size_t size)
{
	return kmem_cache_create("scale", (unsigned int)size, NULL,
				 SLAB_NO_MERGE | SLAB_NO_SHEAVES);
}

static void *alloc_object(void *cache)
{
	return kmem_cache_alloc(cache, GFP_KERNEL);
}

static void free_object(void *cache, void *object)
{
	kmem_cache_free(cache, object);
}

static void *open_cpu_slab(size_t size)
{
	return cpu_slab_create(size, 0);
}

static void *alloc_cpu_slab(void *cache)
{
	return cpu_slab_alloc(cache);
}

static void free_cpu_slab(void *cache, void *object)
{
	cpu_slab_free(cache, object);
}

const struct allocator allocators[] = {
	{"sheaf", "libsheaf", open_sheaf, alloc_object, free_object},
	{"no-sheaf", "its slab layer alone", open_no_sheaf, alloc_object, free_object},
	{"cpu-slab", "the three-tier baseline", open_cpu_slab, alloc_cpu_slab, free_cpu_slab},
	{0},
};
