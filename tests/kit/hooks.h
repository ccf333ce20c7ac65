/* SPDX-License-Identifier: MIT */
/* Functions that are not public, for programs without private headers: internal/kit/hooks.c. */
#ifndef SHEAF_TESTS_HOOKS_H
#define SHEAF_TESTS_HOOKS_H

#include <sheaf/group.h>
#include <sheaf/slab.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Count reports of misuse anew: the next five of each kind are written, and the next one of a
 * group's callback that was left. */
void hook_forget_misuse(void);

/* The number of reports so far, with those of misuse that were left out. */
unsigned int hook_reports(void);

/* Is this thread in a function of the program that the library calls? */
bool hook_in_program(void);

/* Use up the memory that the library has for structures of this size and larger ones. */
void hook_use_up_pool(size_t size);

/* Let each node keep so many empty slabs of a cache. */
void hook_keep_slabs(struct kmem_cache *s, unsigned int n);

/* Bytes of addresses that it has reserved for slabs. */
size_t hook_reserved(void);

/* Return what the CPUs have in stock for a group. */
void hook_drain_stock(struct kmem_group *g);

/* After the first use: begin the random numbers by which objects become samples. */
void hook_seed_samples(uint64_t seed);

/* The cache of a block from kmalloc(); the next of kmalloc()'s caches, after NULL the first. */
struct kmem_cache *hook_cache_of(const void *block);
struct kmem_cache *hook_next_of_kmalloc(const struct kmem_cache *s);

/* Points where something may fail (os/should_fail.h): this function says which do; NULL: none. */
void hook_fail_by(bool (*fail)(const char *point));

/* May the calling thread use sections: does the kernel write its CPU's number? */
bool hook_is_registered(void);

/* Is nothing in the sheaf that stands for those of all closed rows? */
bool hook_closed_rows_are_empty(void);

/* Does the library mark memory for a sanitizer or valgrind? */
bool hook_has_tools(void);
/* From now on the library marks no memory as free for sanitizers, so that a test may access it. */
void hook_leave_tools(void);

#endif
