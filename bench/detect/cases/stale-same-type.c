/* SPDX-License-Identifier: MIT */
/* Writes by a stale pointer after the object was allocated again for a new owner. */
#include "detect.h"

enum {
	TRIES = 4096
};

CASE("stale-same-type")
{
	struct cache *s = cache_make("conn", CONN, NULL);
	unsigned char *volatile stale = made_here(s);
	void *object;
	unsigned int tries = 0;

	freed_here(s, stale);
	while ((object = made_here(s)) != stale && tries++ < TRIES)
		freed_here(s, object);
	MISUSE(stale[8] = 1);
	freed_here(s, object);
}
