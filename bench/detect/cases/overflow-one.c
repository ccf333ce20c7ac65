/* SPDX-License-Identifier: MIT */
/* Writes one byte past the end of an object. */
#include "detect.h"

CASE("overflow-one")
{
	struct cache *s = cache_make("conn", CONN, NULL);
	unsigned char *volatile object = made_here(s);

	MISUSE(object[CONN] = 1);
	freed_here(s, object);
}
