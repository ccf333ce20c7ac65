/* SPDX-License-Identifier: MIT */
/* A heapsort; see sort.h. */
#include "os/sort.h"

#include <stdint.h>
#include <string.h>

static void swap(char *a, char *b, size_t size)
{
	for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, a + i, sizeof(word));
		memcpy(a + i, b + i, sizeof(word));
		memcpy(b + i, &word, sizeof(word));
	}
}

static void sift_down(char *at, size_t i, size_t n, size_t size,
		      int (*compare)(const void *, const void *))
{
	for (size_t child; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && compare(at + child * size, at + (child + 1) * size) < 0)
			child++;
		if (compare(at + i * size, at + child * size) >= 0)
			return;
		swap(at + i * size, at + child * size, size);
	}
}

void os_sort(void *array, size_t n, size_t size, int (*compare)(const void *, const void *))
{
	for (size_t i = n / 2; i > 0; i--)
		sift_down(array, i - 1, n, size, compare);
	for (; n > 1; n--) {
		swap(array, (char *)array + (n - 1) * size, size);
		sift_down(array, 0, n - 1, size, compare);
	}
}
