/* SPDX-License-Identifier: MIT */
/*
 * VMAs: one cache for all spaces. Any thread may call these functions at any time.
 */
#include <errno.h>
#include <pthread.h>
#include <sheaf/rcu.h>

#include "internal.h"

static struct kmem_cache *cache;
static pthread_once_t cache_once = PTHREAD_ONCE_INIT;

static void make_cache(void)
{
	cache = kmem_cache_create("vma", sizeof(struct vma), NULL, SLAB_PANIC | SLAB_NO_MERGE);
}

struct kmem_cache *vma_cache(void)
{
	pthread_once(&cache_once, make_cache);
	return cache;
}

struct vma *vma_alloc(void)
{
	return kmem_cache_alloc(vma_cache(), GFP_KERNEL);
}

int vma_alloc_bulk(unsigned int n, void **vmas)
{
	return kmem_cache_alloc_bulk(vma_cache(), GFP_KERNEL, n, vmas) ? 0 : -ENOMEM;
}

void vma_free(struct vma *vma)
{
	kmem_cache_free(cache, vma);
}

void vma_free_bulk(unsigned int n, void **vmas)
{
	kmem_cache_free_bulk(cache, n, vmas);
}

void vma_retire(struct vma *vma)
{
	kmem_cache_free_rcu(cache, vma);
}

struct vma *vma_copy_part(const struct vma *vma, unsigned long start, unsigned long end)
{
	struct vma *part = vma_alloc();

	if (!part)
		return NULL;
	*part = *vma;
	part->start = start;
	part->end = end;
	if (part->file)
		part->page += (start - vma->start) / SPACE_PAGE;
	return part;
}
