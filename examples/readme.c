/* SPDX-License-Identifier: MIT */
/*
 * The example of README.md: scripts/check-readme compares them.
 *
 *     cc readme.c -o readme $(pkg-config --cflags --libs libsheaf)
 */
#include <sheaf/slab.h>
#include <stdio.h>

struct point {
	double x, y;
	struct point *next;
};

int main(void)
{
	struct kmem_cache *points = KMEM_CACHE(point, SLAB_HWCACHE_ALIGN);
	struct point *p = points ? kmem_cache_zalloc(points, GFP_KERNEL) : NULL;

	if (!p)
		return 1;
	p->x = 3;
	printf("a point of %u bytes at x = %g\n", kmem_cache_size(points), p->x);
	kmem_cache_free(points, p);
	kmem_cache_destroy(points);
	return 0;
}
