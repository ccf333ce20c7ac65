/* SPDX-License-Identifier: MIT */
/*
 * The allocator to which all others are compared: it moves no line that need not move.
 *
 *   CPU     its free objects, last in first out
 *   CPU     retired objects, in the order in which their grace periods end
 *
 * Its own data cost nothing, and all CPUs see them immediately: no word in memory says which
 * objects are free. A call costs a section, like one of ours. An object stays with the CPU that
 * freed it until another CPU has none: that one takes half of what the nearest CPU has. The
 * remaining cost is that of the object's own lines, when the program writes them on another CPU
 * than before.
 *
 * Memory comes from the library's pages, on the node of the calling CPU, and is never returned. Not
 * instrumented. Callers: scale/src/allocators.c.
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
