/* SPDX-License-Identifier: MIT */
/* Operations in another object file of program.c's, which is compiled in another way. */
#ifndef SHEAF_TESTS_ELSEWHERE_H
#define SHEAF_TESTS_ELSEWHERE_H

#include <sheaf/slab.h>

#ifdef __cplusplus
extern "C" {
#endif

void *alloc_elsewhere(struct kmem_cache *s);
void free_elsewhere(struct kmem_cache *s, void *object);
void *kmalloc_elsewhere(size_t size);

#ifdef __cplusplus
}
#endif

#endif
