/* SPDX-License-Identifier: MIT */
/* Allocates from a cache that was destroyed. */
#include "detect.h"

CASE("destroyed-cache")
{
	struct cache *s;
	void *volatile object;

	needs_caches();
	s = cache_make("conn", CONN, NULL);
	freed_here(s, made_here(s));
	leave_alone(s);
	cache_end(s);
	MISUSE(object = cache_take(s); if (object) cache_give(s, object));
}
