/* SPDX-License-Identifier: MIT */
/* Frees an object twice in a row. */
#include "detect.h"

CASE("double-free")
{
	struct cache *s = cache_make("conn", CONN, NULL);
	void *object = made_here(s);

	freed_here(s, object);
	MISUSE(cache_give(s, object));
}
