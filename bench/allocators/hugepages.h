/* SPDX-License-Identifier: MIT */
/* No allocator and no reuse: one object after the other in untouched huge pages. */
#include "common/huge.h"

#define BENCH_CALL NULL

struct bench_pages {
	char *next;
	size_t size;
};

static inline void *bench_open(const struct bench_setup *setup)
{
	static struct bench_pages pages;

	pages.next = bench_huge(setup->objects * setup->size);
	pages.size = setup->size;
	return &pages;
}

static inline void bench_thread_begin(unsigned int index)
{
	(void)index;
}

static inline void *bench_alloc(void *context)
{
	struct bench_pages *pages = context;
	void *object = pages->next;

	pages->next += pages->size;
	return object;
}

static inline void bench_free(void *context, void *object)
{
	(void)context;
	(void)object;
}

static inline bool bench_alloc_bulk(void *context, void **objects, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		objects[i] = bench_alloc(context);
	return true;
}

static inline void bench_free_bulk(void *context, void **objects, unsigned int n)
{
	(void)context;
	(void)objects;
	(void)n;
}

static inline void bench_trim(void *context)
{
	(void)context;
}

static inline bool bench_make_countable(void)
{
	return true;
}
