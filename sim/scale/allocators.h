/* SPDX-License-Identifier: MIT */
/* The allocators that `sheaf sim scale` compares. Callers: sim/scale/. */
#ifndef SHEAF_SIM_SCALE_ALLOCATORS_H
#define SHEAF_SIM_SCALE_ALLOCATORS_H

#include <stddef.h>

struct allocator {
	const char *name, *what;
	void *(*open)(size_t size); /* objects of this size; NULL: no memory */
	void *(*alloc)(void *context);
	void (*free)(void *context, void *object);
};

/* The last one has no name. */
extern const struct allocator allocators[];

#endif
