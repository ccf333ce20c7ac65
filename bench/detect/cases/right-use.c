/* SPDX-License-Identifier: MIT */
/* Uses objects and blocks as it may, so that each report is a false one. */
#include "detect.h"

CASE("right-use")
{
	struct cache *s = cache_make("conn", CONN, NULL);
	unsigned char *object = made_here(s), *block = block_take(100);

	for (int i = 0; i < CONN; i++)
		object[i] = (unsigned char)i;
	freed_here(s, object);
	cache_retire(s, made_here(s));
	grace_pass();
	block = block_resize(block, 200);
	MISUSE(block[199] = 1); /* none: no tool may report anything */
	block_give(block);
}
