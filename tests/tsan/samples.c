/* SPDX-License-Identifier: MIT */
/* Objects that are in use at exit, for the heap profile: of 64 objects, about one is a sample. */
#include <sheaf/slab.h>

int main(void)
{
	struct kmem_cache *s = kmem_cache_create("kept", 64, NULL, 0);

	for (int i = 0; i < 20000; i++)
		if (!kmem_cache_alloc(s, GFP_KERNEL))
			return 1;
	return 0;
}
