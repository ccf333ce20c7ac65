/* SPDX-License-Identifier: MIT */
/* A stale owner frees an object that has a new owner, who then frees it, too. */
#include "detect.h"

enum {
	TRIES = 4096
};

CASE("double-free-reused")
{
	static void *others[TRIES];
	struct cache *s = cache_make("conn", CONN, NULL);
	void *stale = made_here(s), *object = NULL;
	unsigned int n = 0;

	freed_here(s, stale);
	while (n < TRIES && object != stale)
		others[n++] = object = made_here(s);
	MISUSE(freed_here(s, stale));
	while (n)
		cache_give(s, others[--n]);
}
