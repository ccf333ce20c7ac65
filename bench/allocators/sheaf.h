/* SPDX-License-Identifier: MIT */
/* libsheaf through its public header. Variants: "" with sheaves, "no-sheaf" without. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sheaf/slab.h"

#define RSEQ_UNREGISTER	 1
#define RSEQ_SIGNATURE	 0x53053053
#define RSEQ_CPU_IDS	 0  /* cpu_id_start and cpu_id */
#define RSEQ_NODE_AND_ID 20 /* node_id and mm_cid */
#define RSEQ_LENGTH_MAX	 256

extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

#define BENCH_CALL NULL

static inline void *bench_open(const struct bench_setup *setup)
{
	struct kmem_cache_args args = {.sheaf_capacity = setup->capacity};
	bool no_sheaf = !strcmp(setup->variant, "no-sheaf");

	return kmem_cache_create("bench", (unsigned int)setup->size, &args,
				 SLAB_NO_MERGE | (no_sheaf ? SLAB_NO_SHEAVES : 0));
}

static inline void bench_thread_begin(unsigned int index)
{
	(void)index;
}

static inline void *bench_alloc(void *context)
{
	return kmem_cache_alloc(context, GFP_KERNEL);
}

static inline void bench_free(void *context, void *object)
{
	kmem_cache_free(context, object);
}

static inline bool bench_alloc_bulk(void *context, void **objects, unsigned int n)
{
	return kmem_cache_alloc_bulk(context, GFP_KERNEL, n, objects);
}

static inline void bench_free_bulk(void *context, void **objects, unsigned int n)
{
	kmem_cache_free_bulk(context, n, objects);
}

static inline void bench_trim(void *context)
{
	kmem_cache_shrink(context);
}

/*
 * Take this thread's rseq area back from the kernel and fill it in by hand, as CPU 0: the sections
 * then run unaborted under single-stepping. Right only as long as nobody else uses row 0.
 */
static inline bool bench_make_countable(void)
{
	char *area;
	unsigned int length = 32;

	if (!&__rseq_size || !&__rseq_offset || __rseq_size == 0)
		return true; /* the trylock backend runs, which can be stepped as it is */
	area = (char *)__builtin_thread_pointer() + __rseq_offset;
	while (syscall(SYS_rseq, area, length, RSEQ_UNREGISTER, RSEQ_SIGNATURE)) {
		/* Whoever registered chose the length, and does not tell. */
		length += 4;
		if (length > RSEQ_LENGTH_MAX) {
			fprintf(stderr, "count: the rseq area cannot be unregistered\n");
			return false;
		}
	}
	*(volatile uint64_t *)(area + RSEQ_CPU_IDS) = 0;
	for (unsigned int field = 0; field < 2; field++)
		*(volatile uint32_t *)(area + RSEQ_NODE_AND_ID + 4 * field) = 0;
	return true;
}
