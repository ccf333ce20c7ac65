/* SPDX-License-Identifier: MIT */
/* libsheaf through kmalloc and kfree, with objects of one size that the compiler does not know. */
#include <sheaf/kmalloc.h>

#include "rseq_countable.h"

#define BENCH_CALL NULL

static inline void *bench_open(const struct bench_setup *setup)
{
	return (void *)setup->size;
}

static inline void bench_thread_begin(unsigned int index)
{
	(void)index;
}

static inline void *bench_alloc(void *context)
{
	return kmalloc((size_t)context, GFP_KERNEL);
}

static inline void bench_free(void *context, void *object)
{
	(void)context;
	kfree(object);
}

static inline bool bench_alloc_bulk(void *context, void **objects, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		objects[i] = bench_alloc(context);
		if (!objects[i])
			return false;
	}
	return true;
}

static inline void bench_free_bulk(void *context, void **objects, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		bench_free(context, objects[i]);
}

static inline void bench_trim(void *context)
{
	(void)context;
}
