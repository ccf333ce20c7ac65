/* SPDX-License-Identifier: MIT */
/*
 * What every object handed out must be: nobody else's, and untouched until it is given back.
 *
 * The table of live objects is the model (DESIGN R5): an object that is handed out twice is found
 * at once. Each live object is stamped, so that a write to it, or another slab in the same pages,
 * is found at the latest when it is freed. No step of the simulator happens in here.
 *
 * A retired object stays in the table with the readers that were inside a section then: until the last
 * of them leaves, it must be as it was, and must not be handed out.
 */
#ifndef SHEAF_SIM_KIT_MODEL_H
#define SHEAF_SIM_KIT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Constructed objects keep this word at their begin. */
#define MODEL_CONSTRUCTED 0xc0457c7ed0b1ec75ul

struct kmem_cache;
struct sheaf;

/* An object came out of the cache: it becomes live. Its first `keep` bytes are not stamped. */
void model_add(struct kmem_cache *s, void *object, size_t keep);
/* It is about to be freed: it was live, and in this cache, and is as it was left. */
void model_remove(struct kmem_cache *s, void *object);
size_t model_live(void);
/* It is about to be retired: with a head behind what it keeps, which may be written to then. */
uint64_t model_retire(struct kmem_cache *s, void *object, bool head);
/* The call has returned: a barrier must not miss it from now on. `which`: what model_retire() said. */
void model_was_retired(void *object, uint64_t which);
/* This reader leaves its section: what waited for it must be untouched. */
void model_reader_leaves(uint64_t bit);
/* What was retired before: a moment for model_has_passed(). */
uint64_t model_moment(void);
/* A barrier returns: no object of this cache (NULL: of any) that was retired before waits for a reader. */
void model_has_passed(const struct kmem_cache *s, uint64_t moment);
/* For sheaf_for_each_retired(): what is in a sheaf that waits for a grace period does wait for one. */
void model_found_waiting(void *data, struct sheaf *sheaf, bool waits);
/* Everything retired has been freed. */
void model_all_freed(void);
void model_constructor(void *object);

#endif
