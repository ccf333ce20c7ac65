/* SPDX-License-Identifier: MIT */
/* Bulk probe of libsheaf: bulk-sheaf N [CAPACITY]. See bulk.h. */
#include "bulk.h"
#include "sheaf/slab.h"

int main(int argc, char **argv)
{
	unsigned int n = bulk_count(argc, argv);
	struct kmem_cache_args args = {
		.sheaf_capacity = argc > 2 ? (unsigned int)strtoul(argv[2], NULL, 10) : 0};
	struct kmem_cache *cache = kmem_cache_create("bulk", 64, &args, SLAB_NO_MERGE);

	if (!cache)
		return 1;
	bulk_probe(
		n,
		{
			if (!kmem_cache_alloc_bulk(cache, GFP_KERNEL, n, objects))
				return 1;
		},
		kmem_cache_free_bulk(cache, n, objects));
	return 0;
}
