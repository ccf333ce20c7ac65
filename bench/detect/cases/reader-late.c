/* SPDX-License-Identifier: MIT */
/* A reader keeps an object beyond its section, and reads it. */
#include <pthread.h>

#include "detect.h"

static unsigned char *volatile kept;
static volatile unsigned char found;

/* Its section is over, and the grace period has passed. */
static void *read_it(void *unused)
{
	found = kept[40];
	return unused;
}

CASE("reader-late")
{
	struct cache *s = cache_make("conn", CONN, NULL);
	pthread_t thread;

	kept = made_here(s);
	kept[40] = 1;
	cache_retire(s, kept);
	grace_pass();
	MISUSE(pthread_create(&thread, NULL, read_it, NULL); pthread_join(thread, NULL));
}
