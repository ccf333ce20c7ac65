/* SPDX-License-Identifier: MIT */
/*
 * An allocator of objects of any size, as allocator.h is of one: a program is built for one
 * sized/NAME.h, named by BENCH_SIZED. That defines, all static:
 *   bool sized_begin(const char *variant)        once; false after an error that it has reported
 *   void *sized_alloc(size_t size), void sized_free(void *object)
 *   void *sized_pages(size_t size, size_t align), void sized_pages_free(void *object)
 *                                                large blocks; align: a power of two up to a page
 *   void sized_trim(void)                        return free memory, if the benchmark does that
 * and SIZED_CALL as BENCH_CALL there.
 */
#ifndef BENCH_SIZED_H
#define BENCH_SIZED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "common/common.h"

#include BENCH_SIZED

/* Call sized_begin() and print the library of the calls; ends the program on an error. */
static inline void sized_start(const char *variant)
{
	if (!sized_begin(variant))
		exit(1);
	bench_print_origin(SIZED_CALL);
}

#endif
