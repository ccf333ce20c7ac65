/* SPDX-License-Identifier: MIT */
/* Writes to bytes 18 and 19 of a block of 18. */
#include "detect.h"

CASE("kmalloc-gap")
{
	unsigned char *volatile block = block_take(18);

	MISUSE(block[18] = 0xab; block[19] = 0xab);
	block_give(block);
}
