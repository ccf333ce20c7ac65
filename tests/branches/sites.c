/* SPDX-License-Identifier: MIT */
/*
 * Call sites as programs have them, as C and as C++, for check-branches: each function has as many
 * sites as calls of kmem_cache_alloc(), kmem_cache_free() and kmalloc().
 */
#include <sheaf/kmalloc.h>
#include <sheaf/slab.h>

#include "sites.h"

struct item {
	struct item *next;
	int value;
};

void *site_alloc(struct kmem_cache *s)
{
	return kmem_cache_alloc(s, GFP_KERNEL);
}

void site_free(struct kmem_cache *s, void *object)
{
	kmem_cache_free(s, object);
}

void *site_alloc_global(void)
{
	return kmem_cache_alloc(cache, GFP_KERNEL);
}

void *site_alloc_flags(struct kmem_cache *s, gfp_t flags)
{
	return kmem_cache_alloc(s, flags);
}

void *site_kmalloc_constant(void)
{
	return kmalloc(64, GFP_KERNEL);
}

void *site_kmalloc(size_t size)
{
	return kmalloc(size, GFP_KERNEL);
}

void *site_kmalloc_flags(size_t size, gfp_t flags)
{
	return kmalloc(size, flags);
}

struct item *site_loop(int n)
{
	struct item *first = NULL;

	while (n--) {
		struct item *one = SHEAF_CAST(struct item *, kmem_cache_alloc(cache, GFP_KERNEL));

		if (!one)
			break;
		one->next = first;
		one->value = n;
		first = one;
	}
	return first;
}

void site_loop_free(struct item *first)
{
	while (first) {
		struct item *next = first->next;

		kmem_cache_free(cache, first);
		first = next;
	}
}

int site_branch(struct item *at, int value)
{
	if (value > 3)
		at = SHEAF_CAST(struct item *, kmalloc(sizeof(*at), GFP_KERNEL));
	else if (!at)
		return 1;
	use(at);
	return at->value == value;
}

/* More values than registers. */
int site_many_values(int a, int b, int c, int d, int e, int f, int g, int h, struct item *at)
{
	struct item *one = SHEAF_CAST(struct item *, kmem_cache_alloc(cache, GFP_NOWAIT));

	if (!one)
		return -1;
	one->value = a * b + c * d + e * f + g * h;
	one->next = at;
	use(one);
	return a + b + c + d + e + f + g + h;
}

int site_many_values_free(int a, int b, int c, int d, int e, int f, int g, int h, struct item *at)
{
	use(at);
	kmem_cache_free(cache, at);
	return a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + g * 7 + h * 8;
}
