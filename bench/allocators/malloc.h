/* SPDX-License-Identifier: MIT */
/* malloc and free of the C library or of a preloaded library. */
#include <stdlib.h>

#include "allocators/malloc_trim.h"

#define BENCH_CALL malloc

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
	return malloc((size_t)context);
}

static inline void bench_free(void *context, void *object)
{
	(void)context;
	free(object);
}

static inline bool bench_alloc_bulk(void *context, void **objects, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		objects[i] = malloc((size_t)context);
		if (!objects[i])
			return false;
	}
	return true;
}

static inline void bench_free_bulk(void *context, void **objects, unsigned int n)
{
	(void)context;
	for (unsigned int i = 0; i < n; i++)
		free(objects[i]);
}

static inline void bench_trim(void *context)
{
	(void)context;
	malloc_return_all();
}

static inline bool bench_make_countable(void)
{
	return true;
}
