/* SPDX-License-Identifier: MIT */
/* The calls that check-branches follows, one by one, in a program that has none in place. */
#include <sheaf/rcu.h>
#include <sheaf/slab.h>

#define ENTRY __attribute__((noinline, noclone, used))

struct kmem_cache *cache;

ENTRY void use(void *object)
{
	__asm__ volatile("" ::"r"(object) : "memory");
}

ENTRY void *call_kmem_cache_alloc(struct kmem_cache *s)
{
	return kmem_cache_alloc(s, GFP_KERNEL);
}

ENTRY void *call_kmem_cache_zalloc(struct kmem_cache *s)
{
	return kmem_cache_zalloc(s, GFP_KERNEL);
}

ENTRY void call_kmem_cache_free(struct kmem_cache *s, void *object)
{
	kmem_cache_free(s, object);
}

ENTRY void *call_kmalloc(size_t size)
{
	return kmalloc(size, GFP_KERNEL);
}

ENTRY void *call___kmalloc_token(size_t size)
{
	return __kmalloc_token(size, GFP_KERNEL, UINT64_MAX);
}

ENTRY void *call_kzalloc(size_t size)
{
	return kzalloc(size, GFP_KERNEL);
}

ENTRY void call_kfree(void *block)
{
	kfree(block);
}

ENTRY void call_kvfree(void *block)
{
	kvfree(block);
}

ENTRY int call_kmem_cache_alloc_bulk(struct kmem_cache *s, size_t n, void **p)
{
	return kmem_cache_alloc_bulk(s, GFP_KERNEL, n, p);
}

ENTRY void call_kmem_cache_free_bulk(struct kmem_cache *s, size_t n, void **p)
{
	kmem_cache_free_bulk(s, n, p);
}

ENTRY void call___kvfree_rcu(void *object)
{
	__kvfree_rcu(object, 0);
}

ENTRY void call_kmem_cache_free_rcu(struct kmem_cache *s, void *object)
{
	kmem_cache_free_rcu(s, object);
}

ENTRY void *call_kmem_cache_prefill_sheaf(struct kmem_cache *s)
{
	return kmem_cache_prefill_sheaf(s, GFP_KERNEL, 8);
}

ENTRY void call_kmem_cache_return_sheaf(struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
}

ENTRY void *call_kmem_cache_alloc_from_sheaf(struct kmem_cache *s, struct slab_sheaf *sheaf)
{
	return kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, sheaf);
}

int main(int argc, char **argv)
{
	(void)argv;
	return argc;
}
