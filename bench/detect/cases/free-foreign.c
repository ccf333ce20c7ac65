/* SPDX-License-Identifier: MIT */
/* Frees memory from mmap. */
#include <sys/mman.h>

#include "detect.h"

CASE("free-foreign")
{
	struct cache *s = cache_make("conn", CONN, NULL);
	char *pages = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	MISUSE(cache_give(s, pages + 4096 + CONN));
}
