/* SPDX-License-Identifier: MIT */
/* The three-tier baseline, rivals/cpu_slab/. Variants: "", "deferred" links new slabs as needed. */
#include <string.h>

#include "rivals/cpu_slab/cpu_slab.h"
#include "rseq_countable.h"

#define BENCH_CALL NULL

static inline void *bench_open(const struct bench_setup *setup)
{
	bool deferred = !strcmp(setup->variant, "deferred");

	return cpu_slab_create(setup->size, deferred ? CPU_SLAB_DEFERRED : 0);
}

static inline void bench_thread_begin(unsigned int index)
{
	(void)index;
}

static inline void *bench_alloc(void *context)
{
	return cpu_slab_alloc(context);
}

static inline void bench_free(void *context, void *object)
{
	cpu_slab_free(context, object);
}

static inline bool bench_alloc_bulk(void *context, void **objects, unsigned int n)
{
	return cpu_slab_alloc_bulk(context, objects, n);
}

static inline void bench_free_bulk(void *context, void **objects, unsigned int n)
{
	cpu_slab_free_bulk(context, objects, n);
}

static inline void bench_trim(void *context)
{
	cpu_slab_trim(context);
}
