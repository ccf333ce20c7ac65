/* SPDX-License-Identifier: MIT */
/*
 * kmem_buckets: a separate set of caches with kmalloc()'s sizes.
 *
 * Locks: none here. Callers: programs.
 */
#include <limits.h>

#include "kmalloc/kmalloc.h"
#include "page/pool.h"

struct sheaf_kmem_buckets {
	struct kmem_cache *caches[KMALLOC_CACHES]; /* [0]: none */
};

/* Limit the region that may be copied to user space to an object of this size. */
static void cut_region(struct kmem_cache_args *args, unsigned int size)
{
	if (args->useroffset >= size)
		args->useroffset = args->usersize = 0;
	if (args->usersize > size - args->useroffset)
		args->usersize = size - args->useroffset;
}

SHEAF_PUBLIC kmem_buckets *kmem_buckets_create(const char *name, slab_flags_t flags,
					       unsigned int useroffset, unsigned int usersize,
					       void (*ctor)(void *object))
{
	kmem_buckets *set = caches_ready() ? pool_alloc(sizeof(*set)) : NULL;

	for (unsigned int i = 1; set && i < KMALLOC_CACHES; i++) {
		struct kmem_cache_args args;

		memset(&args, 0, sizeof(args));
		args.useroffset = useroffset;
		args.usersize = usersize;
		args.ctor = ctor;
		cut_region(&args, kmalloc_sizes[i]);
		set->caches[i] = kmalloc_make(name ? name : "(no name)", i, &args, flags);
		if (!set->caches[i]) {
			kmem_buckets_destroy(set);
			return NULL;
		}
	}
	cache_leave();
	return set;
}

SHEAF_PUBLIC void kmem_buckets_destroy(kmem_buckets *set)
{
	for (unsigned int i = 1; set && i < KMALLOC_CACHES; i++)
		kmem_cache_destroy(set->caches[i]);
	pool_free(set, sizeof(*set));
}

static void *alloc_of(kmem_buckets *set, size_t size, gfp_t flags, size_t most, const char *call,
		      const void *caller)
{
	struct kmem_cache *s;

	if (!set || !size || size > KMALLOC_LARGEST)
		return kmalloc_most(size, flags, NUMA_NO_NODE, most, call, caller);
	s = set->caches[kmalloc_index(size)];
	if (cache_is_checked(s))
		return kmalloc_checked(s, size, flags, NUMA_NO_NODE);
	return cache_alloc(s, flags);
}

SHEAF_PUBLIC OS_NOINLINE void *kmem_buckets_alloc(kmem_buckets *set, size_t size, gfp_t flags)
{
	return alloc_of(set, size, flags, KMALLOC_MAX_SIZE, "kmem_buckets_alloc",
			__builtin_return_address(0));
}

SHEAF_PUBLIC OS_NOINLINE void *kmem_buckets_valloc(kmem_buckets *set, size_t size, gfp_t flags)
{
	return alloc_of(set, size, flags, INT_MAX, "kmem_buckets_valloc",
			__builtin_return_address(0));
}
