/* SPDX-License-Identifier: MIT */
/* Writes one byte in front of an object. */
#include "detect.h"

CASE("underflow")
{
	struct cache *s = cache_make("conn", CONN, NULL);
	unsigned char *volatile object = made_here(s);

	MISUSE(object[-1] = 1);
	freed_here(s, object);
}
