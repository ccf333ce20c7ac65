/* SPDX-License-Identifier: MIT */
/* malloc and free of the C library or of a preloaded library. */
#include <stdlib.h>

#include "allocators/malloc_trim.h"

#define SIZED_CALL malloc

static inline bool sized_begin(const char *variant)
{
	(void)variant;
	return true;
}

static inline void *sized_alloc(size_t size)
{
	return malloc(size);
}

static inline void sized_free(void *object)
{
	free(object);
}

static inline void *sized_pages(size_t size, size_t align)
{
	return align > sizeof(max_align_t) ? aligned_alloc(align, size) : malloc(size);
}

static inline void sized_pages_free(void *object)
{
	free(object);
}

static inline void sized_trim(void)
{
	malloc_return_all();
}
