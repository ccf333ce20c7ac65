/* SPDX-License-Identifier: MIT */
/* Branches on a byte of an object that was never written. */
#include "detect.h"

CASE("uninitialised")
{
	struct cache *s = cache_make("conn", CONN, NULL);
	unsigned char *volatile object = made_here(s);

	MISUSE(if (object[8] == 1) detect_mark("an odd number"));
	freed_here(s, object);
}
