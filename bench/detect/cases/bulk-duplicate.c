/* SPDX-License-Identifier: MIT */
/* Frees an array that contains one object twice. */
#include "detect.h"

CASE("bulk-duplicate")
{
	struct cache *s = cache_make("conn", CONN, NULL);
	void *objects[4] = {made_here(s), made_here(s), made_here(s)};

	objects[3] = objects[1];
	MISUSE(cache_give_many(s, 4, objects));
}
