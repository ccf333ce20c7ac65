/* SPDX-License-Identifier: MIT */
/* Writes to a retired object after its grace period. */
#include "detect.h"

CASE("after-grace")
{
	struct cache *s = cache_make("conn", CONN, NULL);
	unsigned char *volatile object = made_here(s);

	cache_retire(s, object);
	grace_pass();
	MISUSE(object[8] = 1);
}
