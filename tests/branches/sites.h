/* SPDX-License-Identifier: MIT */
/* The functions that check-branches follows, with the same names in C and C++. */
#ifndef SHEAF_TESTS_SITES_H
#define SHEAF_TESTS_SITES_H

#include <sheaf/slab.h>

#ifdef __cplusplus
extern "C" {
#endif

struct item;

extern struct kmem_cache *cache;
void use(void *object);

void *site_alloc(struct kmem_cache *s);
void site_free(struct kmem_cache *s, void *object);
void *site_alloc_global(void);
void *site_alloc_flags(struct kmem_cache *s, gfp_t flags);
void *site_kmalloc_constant(void);
void *site_kmalloc(size_t size);
void *site_kmalloc_flags(size_t size, gfp_t flags);
struct item *site_loop(int n);
void site_loop_free(struct item *first);
int site_branch(struct item *at, int value);
int site_many_values(int a, int b, int c, int d, int e, int f, int g, int h, struct item *at);
int site_many_values_free(int a, int b, int c, int d, int e, int f, int g, int h, struct item *at);

#ifdef __cplusplus
}
#endif

#endif
