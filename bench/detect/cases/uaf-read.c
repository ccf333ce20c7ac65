/* SPDX-License-Identifier: MIT */
/* Reads a freed object. */
#include "detect.h"

CASE("uaf-read")
{
	struct cache *s = cache_make("conn", CONN, NULL);
	unsigned char *volatile object = made_here(s);
	volatile unsigned char found;

	object[40] = 1;
	freed_here(s, object);
	MISUSE(found = object[40]);
	(void)found;
}
