/* SPDX-License-Identifier: MIT */
/* Writes a byte 1000 bytes past the end of an object. */
#include "detect.h"

CASE("overflow-far")
{
	struct cache *s = cache_make("conn", CONN, NULL);
	unsigned char *volatile object = made_here(s);

	MISUSE(object[CONN + 1000] = 1);
	freed_here(s, object);
}
