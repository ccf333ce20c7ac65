/* SPDX-License-Identifier: MIT */
/* Frees a pointer into an object. */
#include "detect.h"

CASE("free-interior")
{
	struct cache *s = cache_make("conn", CONN, NULL);
	char *object = made_here(s);

	MISUSE(cache_give(s, object + 16));
	freed_here(s, object);
}
