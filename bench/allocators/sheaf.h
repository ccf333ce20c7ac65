/* SPDX-License-Identifier: MIT */
/*
 * libsheaf through its public header. Variants: "" with sheaves, "no-sheaf" without, "wide-barn"
 * with room in the barn for all objects there may be, "charged" and "charged-no-sheaf" with each
 * object charged to a group.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rseq_countable.h"
#include <sheaf/group.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <sheaf/trim.h>

#define BENCH_CALL NULL

#ifdef BENCH_URCU
#include "sheaf_rcu.h" /* counts only during the measurement */
#define BENCH_COUNTS_ITSELF true
#else
#define BENCH_COUNTS_ITSELF false
#endif

/* For `sheaf bench`, in addition to the measurement: see tools/sheaf_bench/counters.py. */
static void bench_print_counters(void)
{
	fflush(stdout);
	sheaf_stats_print(STDOUT_FILENO, SHEAF_STATS_PROMETHEUS);
}

static inline void *bench_open(const struct bench_setup *setup)
{
	struct kmem_cache_args args = {.sheaf_capacity = setup->capacity};
	bool no_sheaf = strstr(setup->variant, "no-sheaf");
	bool charged = !strncmp(setup->variant, "charged", 7);

	if (!strcmp(setup->variant, "wide-barn")) {
		args.barn_objects = 2 * setup->objects;
		args.barn_bytes = args.barn_objects * setup->size;
	}
	if (getenv("BENCH_COUNTERS") && !BENCH_COUNTS_ITSELF)
		atexit(bench_print_counters);
	if (charged)
		kmem_group_restore_current(kmem_group_create("bench", NULL, NULL));
#ifdef BENCH_URCU
	if (!bench_rcu_begin())
		return NULL;
#endif
	return kmem_cache_create("bench", (unsigned int)setup->size, &args,
				 SLAB_NO_MERGE | (no_sheaf ? SLAB_NO_SHEAVES : 0) |
					 (charged ? SLAB_ACCOUNT : 0));
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
	(void)context;
	sheaf_trim(0);
}

/* For the prefill benchmark: the type of a prefilled sheaf, and the calls on it. */
#define BENCH_PREFILL struct slab_sheaf

static inline BENCH_PREFILL *bench_prefill(void *context, unsigned int n)
{
	return kmem_cache_prefill_sheaf(context, GFP_KERNEL, n);
}

static inline void *bench_alloc_from(void *context, BENCH_PREFILL *sheaf)
{
	return kmem_cache_alloc_from_sheaf(context, GFP_KERNEL, sheaf);
}

static inline void bench_return(void *context, BENCH_PREFILL *sheaf)
{
	kmem_cache_return_sheaf(context, GFP_KERNEL, sheaf);
}
