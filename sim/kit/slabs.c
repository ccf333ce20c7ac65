/* SPDX-License-Identifier: MIT */
/* Counts objects that move from and to slabs; see slabs.h. */
#include "sim/kit/slabs.h"

#include "slab/slab.h"

uint64_t slabs_taken, slabs_given;

unsigned int __real_slab_take(struct slab_cache *cache, unsigned int node, enum slab_place place,
			      void **objects, unsigned int n);
unsigned int __wrap_slab_take(struct slab_cache *cache, unsigned int node, enum slab_place place,
			      void **objects, unsigned int n);
void __real_slab_give(struct slab_cache *cache, void *const *objects, unsigned int n,
		      const char *call);
void __wrap_slab_give(struct slab_cache *cache, void *const *objects, unsigned int n,
		      const char *call);

unsigned int __wrap_slab_take(struct slab_cache *cache, unsigned int node, enum slab_place place,
			      void **objects, unsigned int n)
{
	unsigned int got = __real_slab_take(cache, node, place, objects, n);

	slabs_taken += got;
	return got;
}

void __wrap_slab_give(struct slab_cache *cache, void *const *objects, unsigned int n,
		      const char *call)
{
	slabs_given += n;
	__real_slab_give(cache, objects, n, call);
}
