/* SPDX-License-Identifier: MIT */
/* Writes eight bytes past the end of an object. */
#include "detect.h"

CASE("overflow-eight")
{
	struct cache *s = cache_make("conn", CONN, NULL);
	unsigned char *volatile object = made_here(s);

	MISUSE(for (int i = 0; i < 8; i++) object[CONN + i] = 1);
	freed_here(s, object);
}
