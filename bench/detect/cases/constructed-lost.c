/* SPDX-License-Identifier: MIT */
/* Frees an object with a constructor in a state other than the constructed one. */
#include <string.h>

#include "detect.h"

static void construct(void *object)
{
	memset(object, 0xc0, CONN);
}

CASE("constructed-lost")
{
	struct cache *s;
	unsigned char *object;

	needs_caches();
	s = cache_make("conn", CONN, construct);
	object = made_here(s);
	object[8] = 1;
	MISUSE(freed_here(s, object));
}
