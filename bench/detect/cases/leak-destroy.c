/* SPDX-License-Identifier: MIT */
/* Destroys a cache whose object is in use and known to nobody. */
#include "detect.h"

CASE("leak-destroy")
{
	struct cache *s;

	needs_caches();
	s = cache_make("conn", CONN, NULL);
	MISUSE(made_here(s));
}
