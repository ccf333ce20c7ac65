/* SPDX-License-Identifier: MIT */
/* Reads one byte past the end of an object. */
#include "detect.h"

CASE("overflow-read")
{
	struct cache *s = cache_make("conn", CONN, NULL);
	unsigned char *volatile object = made_here(s);
	volatile unsigned char found;

	MISUSE(found = object[CONN]);
	(void)found;
	freed_here(s, object);
}
