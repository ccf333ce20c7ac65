/* SPDX-License-Identifier: MIT */
/*
 * Included before each instrumented source: calls and built-in functions that access memory, but
 * which the compiler does not instrument, go to tsan.c.
 */
#ifndef SHEAF_SCALE_INSTRUMENTED_H
#define SHEAF_SCALE_INSTRUMENTED_H

#define memcpy	price_memcpy
#define memmove price_memmove
#define memset	price_memset

/* The second argument says whether the line will be written. */
void price_prefetch(const void *at, int write, ...);
#define __builtin_prefetch(...) price_prefetch(__VA_ARGS__, 0)

#endif
