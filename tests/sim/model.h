/* SPDX-License-Identifier: MIT */
/*
 * What every object handed out must be: nobody else's, and untouched until it is given back.
 *
 * The table of live objects is the model (DESIGN R5): an object that is handed out twice is found
 * at once. Each live object is stamped, so that a write to it, or another slab in the same pages,
 * is found at the latest when it is freed. No step of the simulator happens in here.
 */
#ifndef SHEAF_TESTS_SIM_MODEL_H
#define SHEAF_TESTS_SIM_MODEL_H

#include <stddef.h>

/* Constructed objects keep this word at their begin. */
#define MODEL_CONSTRUCTED 0xc0457c7ed0b1ec75ul

struct kmem_cache;

/* An object came out of the cache: it becomes live. Its first `keep` bytes are not stamped. */
void model_add(struct kmem_cache *s, void *object, size_t keep);
/* It is about to be freed: it was live, and in this cache, and is as it was left. */
void model_remove(struct kmem_cache *s, void *object);
size_t model_live(void);
void model_constructor(void *object);

#endif
