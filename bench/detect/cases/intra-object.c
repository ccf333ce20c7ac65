/* SPDX-License-Identifier: MIT */
/* Writes past the end of an array inside an object, to the next field. */
#include "detect.h"

struct conn {
	char name[16];
	void (*close)(void);
	char rest[CONN - 24];
};

CASE("intra-object")
{
	struct cache *s = cache_make("conn", sizeof(struct conn), NULL);
	struct conn *object = made_here(s);
	char *volatile name = object->name;

	object->close = NULL;
	MISUSE(for (int i = 0; i < 20; i++) name[i] = 'x');
	freed_here(s, object);
}
