/* SPDX-License-Identifier: MIT */
/* Destroys a cache with an object in use to which nothing points. */
#include "detect.h"

CASE("leak-destroy")
{
	struct cache *s;

	needs_caches();
	s = cache_make("conn", CONN, NULL);
	MISUSE(made_here(s));
}
