/* SPDX-License-Identifier: MIT */
/*
 * The allocator to which all others are compared: it moves no line that need not move.
 *
 *   CPU     its free objects, last in first out
 *   CPU     retired objects, in the order in which their grace periods end
 *
 * Its own data cost nothing and are seen by all at once: which objects are free is known without a
 * word in memory. A call costs a section, as one of ours. An object stays with the CPU that freed
 * it until another CPU has none: that one takes half of what the nearest CPU has. What is left to
 * pay is the object's own lines, when the program writes them on another CPU than before.
 *
 * Memory comes from the library's pages, of the node of the CPU that asks, and is never given back.
 * Not instrumented. Callers: scale/src/allocators.c.
 */
#ifndef SHEAF_SCALE_IDEAL_H
#define SHEAF_SCALE_IDEAL_H

#include <stddef.h>

struct ideal;

/* NULL: no memory. */
struct ideal *ideal_create(size_t size);
void *ideal_alloc(struct ideal *ideal);
void ideal_free(struct ideal *ideal, void *object);
/* Free after a grace period. */
void ideal_retire(struct ideal *ideal, void *object);

#endif
