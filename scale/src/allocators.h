/* SPDX-License-Identifier: MIT */
/*
 * The allocators that `sheaf sim scale` compares: ours and the baseline; and the kernel's designs
 * over time and other variants, which run only on request. Callers: scale/src/.
 */
#ifndef SHEAF_SCALE_ALLOCATORS_H
#define SHEAF_SCALE_ALLOCATORS_H

#include <stddef.h>

#include "scale/src/kernel/kernel.h"

/* What a workload requests. */
struct cache_request {
	const char *name;
	size_t size;
	unsigned int capacity; /* of sheaves; 0: the allocator's choice */
	bool atomic;	       /* its callers must not block, like those of a memory pool */
};

struct allocator {
	const char *name, *what;
	bool variant; /* runs only on request */
	void *(*open)(const struct allocator *allocator, const struct cache_request *request);
	void *(*alloc)(void *context);
	void (*free)(void *context, void *object);
	void (*retire)(void *context, void *object); /* free after a grace period; or NULL */
	bool prefills;				     /* has sheaves to prefill: ours */
	bool kernel;				     /* its locks are queued spinlocks */
	struct kernel_rules rules;
};

/* The last one has no name. */
extern const struct allocator allocators[];

#endif
