/* SPDX-License-Identifier: MIT */
/* Frees a block of kmalloc to a cache. */
#include "detect.h"

CASE("kmalloc-to-cache")
{
	struct cache *s;
	void *block;

	needs_caches();
	s = cache_make("conn", CONN, NULL);
	block = block_take(3 * CONN);
	MISUSE(cache_give(s, block));
}
