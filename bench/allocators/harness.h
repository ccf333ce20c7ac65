/* SPDX-License-Identifier: MIT */
/* No allocator: pointers from an array. The cost of the others beyond this is their own. */
#include <stdint.h>
#include <stdlib.h>

#ifndef BENCH_THREAD_SHIFT
#define BENCH_THREAD_SHIFT 12 /* objects per thread, as a power of two */
#endif

#define BENCH_CALL NULL

static uint32_t bench_mask;
static __thread uint32_t bench_next __attribute__((tls_model("local-exec")));

static inline void *bench_open(const struct bench_setup *setup)
{
	size_t n = 1;
	void **objects;
	char *memory;

	while (n < setup->objects)
		n *= 2;
	objects = malloc(n * sizeof(*objects));
	memory = malloc(n * setup->size);
	if (!objects || !memory)
		return NULL;
	for (size_t i = 0; i < n; i++)
		objects[i] = memory + i * setup->size;
	bench_mask = (uint32_t)(n - 1);
	return objects;
}

static inline void bench_thread_begin(unsigned int index)
{
	bench_next = index << BENCH_THREAD_SHIFT;
}

static inline void *bench_alloc(void *context)
{
	return ((void **)context)[bench_next++ & bench_mask];
}

static inline void bench_free(void *context, void *object)
{
	(void)context;
	__asm__ volatile("" : : "r"(object) : "memory");
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
	__asm__ volatile("" : : "r"(objects), "r"(n) : "memory");
}

static inline void bench_trim(void *context)
{
	(void)context;
}

static inline bool bench_make_countable(void)
{
	return true;
}
