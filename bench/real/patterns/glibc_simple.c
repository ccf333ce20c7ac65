/* SPDX-License-Identifier: MIT */
/*
 * Blocks of one size after the other: many allocated and freed in order, in reverse, and one
 * at a time.
 */
#include "pattern.h"

#define BLOCKS 400

static const size_t sizes[] = {8, 16, 32, 64, 128, 256, 512, 1024};

static void turn(void **blocks, size_t size)
{
	for (int i = 0; i < BLOCKS; i++)
		release(make(size));
	for (int i = 0; i < BLOCKS; i++)
		blocks[i] = make(size);
	for (int i = 0; i < BLOCKS; i++)
		release(blocks[i]);
	for (int i = 0; i < BLOCKS; i++)
		blocks[i] = make(size);
	for (int i = BLOCKS; i > 0; i--)
		release(blocks[i - 1]);
}

void *glibc_simple(void *number)
{
	void *blocks[BLOCKS];

	(void)number;
	for (size_t n = 0; n < rounds; n++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
			turn(blocks, sizes[i]);
	return NULL;
}
