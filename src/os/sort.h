/* SPDX-License-Identifier: MIT */
/* Sorting in place: qsort() may call malloc(), which may be the program's. Callers: src/debug/,
 * src/cache/verify.c, src/stats/. */
#ifndef SHEAF_OS_SORT_H
#define SHEAF_OS_SORT_H

#include <stddef.h>

/* As qsort(), for elements that are whole words of 8 bytes. Equal ones end in any order.
 * O(n log n). */
void os_sort(void *array, size_t n, size_t size, int (*compare)(const void *, const void *));

#endif
