/* SPDX-License-Identifier: MIT */
/* Frees an object of one cache to another. */
#include "detect.h"

CASE("wrong-cache")
{
	struct cache *s, *other;
	void *object;

	needs_caches();
	s = cache_make("conn", CONN, NULL);
	other = cache_make("task", 3 * CONN, NULL);
	object = made_here(s);
	MISUSE(cache_give(other, object));
}
