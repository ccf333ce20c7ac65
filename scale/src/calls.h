/* SPDX-License-Identifier: MIT */
/*
 * The kmem_cache calls of the maple tree and the address spaces, on the allocator that is measured:
 * the compiler includes it before each of their files (-include), so that both are compiled
 * unchanged. Without prefilled sheaves of its own, an allocator gets an array that is filled object
 * by object.
 *
 * Callers: maple/src/ and maple/bench/vma/space/ as compiled for sheaf-sim-scale. See calls.c.
 */
#ifndef SHEAF_SCALE_CALLS_H
#define SHEAF_SCALE_CALLS_H

#include <sheaf/rcu.h>
#include <sheaf/slab.h>

struct kmem_cache *calls_create(const char *name, size_t size, const struct kmem_cache_args *args);
void *calls_alloc(struct kmem_cache *s);
void calls_free(struct kmem_cache *s, void *object);
void calls_retire(struct kmem_cache *s, void *object);
bool calls_alloc_bulk(struct kmem_cache *s, size_t n, void **objects);
void calls_free_bulk(struct kmem_cache *s, size_t n, void **objects);
struct slab_sheaf *calls_prefill(struct kmem_cache *s, unsigned int n);
int calls_refill(struct kmem_cache *s, struct slab_sheaf **sheaf, unsigned int n);
void calls_return(struct kmem_cache *s, struct slab_sheaf *sheaf);
void *calls_take(struct kmem_cache *s, struct slab_sheaf *sheaf);
unsigned int calls_left(const struct slab_sheaf *sheaf);

#ifndef CALLS_THEMSELVES /* calls.c */
#undef kmem_cache_create
#define kmem_cache_create(name, size, args, flags) calls_create(name, size, args)
#define kmem_cache_alloc(s, gfp)		   ((void)(gfp), calls_alloc(s))
#define kmem_cache_free(s, object)		   calls_free(s, object)
#define kmem_cache_free_rcu(s, object)		   calls_retire(s, object)
#define kmem_cache_alloc_bulk(s, gfp, n, p)	   calls_alloc_bulk(s, n, p)
#define kmem_cache_free_bulk(s, n, p)		   calls_free_bulk(s, n, p)
#define kmem_cache_prefill_sheaf(s, gfp, n)	   calls_prefill(s, n)
#define kmem_cache_refill_sheaf(s, gfp, sheaf, n)  calls_refill(s, sheaf, n)
#define kmem_cache_return_sheaf(s, gfp, sheaf)	   calls_return(s, sheaf)
#define kmem_cache_alloc_from_sheaf(s, gfp, sheaf) calls_take(s, sheaf)
#define kmem_cache_sheaf_size(sheaf)		   calls_left(sheaf)
#endif

#endif
