/* SPDX-License-Identifier: MIT */
/* Writes to the first word of a freed object; then others are allocated. */
#include "detect.h"

CASE("uaf-write")
{
	struct cache *s = cache_make("conn", CONN, NULL);
	unsigned char *volatile object = made_here(s);

	freed_here(s, object);
	MISUSE(object[0] = 0x78);
}
