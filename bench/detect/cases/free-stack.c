/* SPDX-License-Identifier: MIT */
/* Frees a local variable. */
#include "detect.h"

CASE("free-stack")
{
	struct cache *s = cache_make("conn", CONN, NULL);
	_Alignas(CONN) char own[2 * CONN] = "";
	char *volatile object = own; /* compilers would see it, too */

	MISUSE(cache_give(s, object));
}
