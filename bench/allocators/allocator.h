/* SPDX-License-Identifier: MIT */
/*
 * The allocator a benchmark program measures. Each program is one benchmark (batch.c, ...) built
 * for one allocator (allocators/NAME.h, named by BENCH_ALLOCATOR), so that every measurement begins
 * in a fresh process and the allocator's calls are compiled into the loop as into any program.
 *
 * An allocators/NAME.h defines, all static:
 *   void *bench_open(const struct bench_setup *setup)
 *       once; the context of the other calls, or NULL after an error that it has reported
 *   void bench_thread_begin(unsigned int index)
 *       in each thread but the first, before its use
 *   void *bench_alloc(void *context), void bench_free(void *context, void *object)
 *   bool bench_alloc_bulk(void *context, void **objects, unsigned int n), and _free_bulk
 *   void bench_trim(void *context)
 *       return free memory to the system, if there is a call for that
 *   bool bench_make_countable(void)
 *       make code single-steppable that is not
 * and BENCH_CALL: a call whose library the program prints, because it may be preloaded; or NULL.
 */
#ifndef BENCH_ALLOCATOR_H
#define BENCH_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "common/common.h"

struct bench_setup {
	size_t size;	       /* bytes of an object */
	size_t objects;	       /* live at the same time, at most */
	unsigned int capacity; /* of sheaves; 0: the library's choice */
	const char *variant;   /* "" or what --variant says */
	int cpu;	       /* the first thread is pinned to */
};

#include BENCH_ALLOCATOR

/*
 * Open the allocator and print the library of its calls; returns its context, or ends the program.
 */
static inline void *bench_begin(size_t size, size_t objects, size_t capacity, const char *variant)
{
	const struct bench_setup setup = {
		.size = size,
		.objects = objects,
		.capacity = (unsigned int)capacity,
		.variant = variant,
		.cpu = bench_cpu(0),
	};
	void *context = bench_open(&setup);

	if (!context)
		exit(1);
	bench_print_origin(BENCH_CALL);
	return context;
}

#endif
