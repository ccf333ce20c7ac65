/* SPDX-License-Identifier: MIT */
/* Frees an object that waits for a grace period. */
#include "detect.h"

CASE("free-retired")
{
	struct cache *s = cache_make("conn", CONN, NULL);
	void *object = made_here(s);

	cache_retire(s, object);
	MISUSE(cache_give(s, object));
	grace_pass();
}
