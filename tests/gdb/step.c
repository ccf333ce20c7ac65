/* SPDX-License-Identifier: MIT */
/* Common operations in place, for a debugger that steps through them. */
#include <sheaf/kmalloc.h>
#include <stdio.h>

static void *object, *block;

int main(void)
{
	struct kmem_cache *s = kmem_cache_create("step", 64, NULL, SLAB_NO_MERGE);

	object = kmem_cache_alloc(s, GFP_KERNEL);
	kmem_cache_free(s, object);
	object = kmem_cache_alloc(s, GFP_KERNEL); /* the first line of check-step */
	block = kmalloc(100, GFP_KERNEL);
	kfree(block);
	kmem_cache_free(s, object);
	printf("right: %d\n", object && block && !kmem_cache_verify(s));
	return 0;
}
