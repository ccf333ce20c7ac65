/* SPDX-License-Identifier: MIT */
/* Each thread allocates many blocks, writes all of them, and frees them in order. */
#include <string.h>

#include "pattern.h"

#define BLOCKS 20000

void *batch(void *number)
{
	void **blocks = malloc(BLOCKS * sizeof(*blocks));
	uint32_t state = seed(number);

	if (!blocks)
		fail("no memory");
	for (size_t n = 0; n < rounds; n++) {
		for (int i = 0; i < BLOCKS; i++) {
			size_t size = 16 + next(&state) % 112;

			blocks[i] = make(size);
			memset((char *)blocks[i] + sizeof(size), (int)size, size - sizeof(size));
		}
		for (int i = 0; i < BLOCKS; i++)
			release(blocks[i]);
	}
	free(blocks);
	return NULL;
}
