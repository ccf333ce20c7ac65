/* SPDX-License-Identifier: MIT */
/*
 * Checks that every allocated object has one owner, and is unchanged until it is freed.
 *
 * The table of live objects is the model (docs/design.md, R5): an object that is allocated twice is
 * found immediately. Each live object is stamped, so that a write to it, or another slab in the
 * same pages, is found when it is freed at the latest. These functions make no step of the
 * simulator.
 *
 * A retired object stays in the table with the readers that were inside a section at that time.
 * Until the last of them leaves, it must not change and must not be allocated.
 */
#ifndef SHEAF_SIM_KIT_MODEL_H
#define SHEAF_SIM_KIT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Constructed objects have this word at their beginning. */
#define MODEL_CONSTRUCTED 0xc0457c7ed0b1ec75ul

struct kmem_cache;
struct sheaf;

/* An object was allocated: it becomes live. Its first `keep` bytes are not stamped. */
void model_add(struct kmem_cache *s, void *object, size_t keep);
/* An object is about to be freed: it must be live, belong to this cache, and be unchanged. */
void model_remove(struct kmem_cache *s, void *object);
size_t model_live(void);
/* An object is about to be retired: with a head after its first `keep` bytes, which may then be
 * written. */
uint64_t model_retire(struct kmem_cache *s, void *object, bool head);
/* The call has returned: from now on a barrier must wait for it. `which`: the result of
 * model_retire(). */
void model_was_retired(void *object, uint64_t which);
/* This reader leaves its section: objects that waited for it must be unchanged. */
void model_reader_leaves(uint64_t bit);
/* The objects retired so far, as a moment for model_has_passed(). */
uint64_t model_moment(void);
/* A barrier returns: no object of this cache (NULL: of any) that was retired before the moment
 * waits for a reader. */
void model_has_passed(const struct kmem_cache *s, uint64_t moment);
/* For sheaf_for_each_retired(): objects in a sheaf that waits for a grace period must be waiting
 * for one. */
void model_found_waiting(void *data, struct sheaf *sheaf, bool waits);
/* Everything retired has been freed. */
void model_all_freed(void);
void model_constructor(void *object);

#endif
