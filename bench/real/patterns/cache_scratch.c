/* SPDX-License-Identifier: MIT */
/*
 * A block that another thread allocated is freed, and one of the same size is allocated,
 * written many times and freed, again and again: where the new one lies decides whether
 * threads write to the same cache line.
 */
#include "pattern.h"

#define WRITES 200
#define TURNS  1000

/* Allocated by main's thread for each worker, side by side. */
static void *inherited[64];

static void inherit(void) __attribute__((constructor));
static void inherit(void)
{
	for (int i = 0; i < 64; i++)
		inherited[i] = make(16);
}

void *cache_scratch(void *number)
{
	release(inherited[(uintptr_t)number % 64]);
	for (size_t n = 0; n < rounds * TURNS; n++) {
		volatile unsigned char *block = make(16);

		for (int i = 0; i < WRITES; i++)
			block[8 + i % 7]++;
		release((void *)block);
	}
	return NULL;
}
