/* SPDX-License-Identifier: MIT */
/* libsheaf: kmalloc for objects of any size, kvmalloc for large blocks. */
#include <sheaf/kmalloc.h>
#include <sheaf/stats.h>
#include <sheaf/trim.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef BENCH_URCU
#include <sheaf/rcu.h>
#define SIZED_RCU 1

static inline bool sized_rcu_begin(void)
{
	return sheaf_urcu_register(0) == 0;
}
#endif

#define SIZED_CALL NULL

/* For `sheaf bench`, in addition to the measurement: see tools/sheaf_bench/counters.py. */
static void sized_print_counters(void)
{
	fflush(stdout);
	sheaf_stats_print(STDOUT_FILENO, SHEAF_STATS_PROMETHEUS);
}

static inline bool sized_begin(const char *variant)
{
	(void)variant;
	if (getenv("BENCH_COUNTERS"))
		atexit(sized_print_counters);
	return true;
}

static inline void *sized_alloc(size_t size)
{
	return kmalloc(size, GFP_KERNEL);
}

static inline void sized_free(void *object)
{
	kfree(object);
}

/* A block of whole pages begins at a page, so no alignment need be requested. */
static inline void *sized_pages(size_t size, size_t align)
{
	void *block = kvmalloc(size, GFP_KERNEL);

	if ((uintptr_t)block & (align - 1))
		abort();
	return block;
}

static inline void sized_pages_free(void *object)
{
	kvfree(object);
}

static inline void sized_trim(void)
{
	sheaf_trim(0);
}
