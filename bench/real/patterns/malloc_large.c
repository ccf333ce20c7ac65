/* SPDX-License-Identifier: MIT */
/* A few blocks of many megabytes, replaced at random; a byte of each page is written. */
#include "pattern.h"

#define KEPT	 20
#define MOST_MIB 20
#define LEAST	 (5u << 20)

void *malloc_large(void *number)
{
	void *kept[KEPT] = {NULL};
	uint32_t state = seed(number);

	for (size_t n = 0; n < rounds; n++) {
		void **at = &kept[next(&state) % KEPT];
		size_t size = LEAST + next(&state) % (MOST_MIB << 20);

		release(*at);
		*at = make(size);
		for (size_t i = 4096; i < size - 1; i += 4096)
			((volatile char *)*at)[i] = 1;
	}
	for (int i = 0; i < KEPT; i++)
		release(kept[i]);
	return NULL;
}
