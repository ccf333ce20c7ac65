/* SPDX-License-Identifier: MIT */
/*
 * The kmem_cache calls of the maple tree and the address space on the three-tier baseline: the
 * compiler includes it before each of their files (-include), so that both are compiled unchanged.
 *
 *   a prefilled sheaf       an array filled in bulk; a thread keeps one for the next time
 *   free after a grace period   arrays of 64, each handed to call_rcu(), as by hand in a program
 *
 * There are two caches at most. Errors end in a crash: this is for benchmarks.
 */
#ifndef BENCH_VMA_THREE_TIER_H
#define BENCH_VMA_THREE_TIER_H

#include <sheaf/rcu.h>
#include <sheaf/slab.h>
#include <stdlib.h>

#include "rivals/cpu_slab/cpu_slab.h"

#define THREE_TIER	 1
#define THREE_TIER_ARRAY 64

struct slab_sheaf {
	unsigned int n;
	void *objects[THREE_TIER_ARRAY];
};

struct three_tier_batch {
	struct sheaf_rcu_head head; /* as large as liburcu's */
	struct cpu_slab *cache;
	unsigned int n;
	void *objects[THREE_TIER_ARRAY];
};

struct three_tier_thread {
	struct slab_sheaf *array;	   /* kept, or NULL */
	struct three_tier_batch *batch[2]; /* for each cache, being filled */
};

extern __thread struct three_tier_thread three_tier;
extern struct cpu_slab *three_tier_caches[2];

struct kmem_cache *three_tier_create(size_t size);
void three_tier_hand_over(struct three_tier_batch *batch);
/* Hand over this thread's partly filled arrays, so that all that it retired is freed eventually. */
void three_tier_hand_over_all(void);

static inline struct cpu_slab *three_tier_of(struct kmem_cache *s)
{
	return (struct cpu_slab *)(void *)s;
}

static inline bool three_tier_alloc_bulk(struct kmem_cache *s, size_t n, void **p)
{
	return cpu_slab_alloc_bulk(three_tier_of(s), p, (unsigned int)n);
}

static inline void three_tier_free_bulk(struct kmem_cache *s, size_t n, void **p)
{
	if (n)
		cpu_slab_free_bulk(three_tier_of(s), p, (unsigned int)n);
}

static inline void three_tier_free_rcu(struct kmem_cache *s, void *object)
{
	struct three_tier_batch **where =
		&three_tier.batch[three_tier_of(s) == three_tier_caches[1]];
	struct three_tier_batch *batch = *where;

	if (!batch) {
		batch = malloc(sizeof(*batch));
		if (!batch)
			abort();
		batch->cache = three_tier_of(s);
		batch->n = 0;
		*where = batch;
	}
	batch->objects[batch->n++] = object;
	if (batch->n == THREE_TIER_ARRAY) {
		*where = NULL;
		three_tier_hand_over(batch);
	}
}

static inline int three_tier_refill(struct kmem_cache *s, struct slab_sheaf **sheaf, unsigned int n)
{
	struct slab_sheaf *array = *sheaf;

	if (n <= array->n)
		return 0;
	if (n > THREE_TIER_ARRAY ||
	    !three_tier_alloc_bulk(s, n - array->n, array->objects + array->n))
		return -1;
	array->n = n;
	return 0;
}

static inline void three_tier_return(struct kmem_cache *s, struct slab_sheaf *array)
{
	three_tier_free_bulk(s, array->n, array->objects);
	if (three_tier.array)
		free(array);
	else
		three_tier.array = array;
}

static inline struct slab_sheaf *three_tier_prefill(struct kmem_cache *s, unsigned int n)
{
	struct slab_sheaf *array = three_tier.array;

	three_tier.array = NULL;
	if (!array)
		array = malloc(sizeof(*array));
	if (!array)
		return NULL;
	array->n = 0;
	if (three_tier_refill(s, &array, n)) {
		three_tier_return(s, array);
		return NULL;
	}
	return array;
}

#undef kmem_cache_create
#define kmem_cache_create(name, size, args, flags) three_tier_create(((void)(args), (size)))
#define kmem_cache_alloc(s, gfp)		   ((void)(gfp), cpu_slab_alloc(three_tier_of(s)))
#define kmem_cache_free(s, object)		   cpu_slab_free(three_tier_of(s), object)
#define kmem_cache_alloc_bulk(s, gfp, n, p)	   ((void)(gfp), three_tier_alloc_bulk(s, n, p))
#define kmem_cache_free_bulk(s, n, p)		   three_tier_free_bulk(s, n, p)
#define kmem_cache_free_rcu(s, object)		   three_tier_free_rcu(s, object)
#define kmem_cache_prefill_sheaf(s, gfp, n)	   ((void)(gfp), three_tier_prefill(s, n))
#define kmem_cache_refill_sheaf(s, gfp, sheaf, n)  ((void)(gfp), three_tier_refill(s, sheaf, n))
#define kmem_cache_return_sheaf(s, gfp, sheaf)	   three_tier_return(s, sheaf)
#define kmem_cache_alloc_from_sheaf(s, gfp, sheaf) ((sheaf)->objects[--(sheaf)->n])
#define kmem_cache_sheaf_size(sheaf)		   ((sheaf)->n)

#endif
