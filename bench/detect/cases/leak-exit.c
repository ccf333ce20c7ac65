/* SPDX-License-Identifier: MIT */
/* Ends with an object in use to which nothing points. */
#include "detect.h"

CASE("leak-exit")
{
	struct cache *s = cache_make("conn", CONN, NULL);

	MISUSE(made_here(s));
	leave_alone(s);
}
