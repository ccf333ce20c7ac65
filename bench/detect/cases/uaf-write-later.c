/* SPDX-License-Identifier: MIT */
/* Writes to byte 50 of a freed object, when others were freed after it. */
#include "detect.h"

enum {
	OTHERS = 20
};

CASE("uaf-write-later")
{
	struct cache *s = cache_make("conn", CONN, NULL);
	unsigned char *volatile object = made_here(s);
	void *others[OTHERS];

	for (int i = 0; i < OTHERS; i++)
		others[i] = made_here(s);
	freed_here(s, object);
	for (int i = 0; i < OTHERS; i++)
		cache_give(s, others[i]);
	MISUSE(object[50] = 0x9a);
}
