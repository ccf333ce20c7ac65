/* SPDX-License-Identifier: MIT */
/* Changes the size of a block that was freed. */
#include "detect.h"

CASE("realloc-freed")
{
	void *block = block_take(CONN);

	block_give(block);
	MISUSE(block = block_resize(block, 4 * CONN));
}
