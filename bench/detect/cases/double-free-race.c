/* SPDX-License-Identifier: MIT */
/* Two threads free one object at the same time. */
#include <pthread.h>

#include "detect.h"

static struct cache *s;
static pthread_barrier_t together;

static void *free_it(void *object)
{
	pthread_barrier_wait(&together);
	freed_here(s, object);
	return NULL;
}

CASE("double-free-race")
{
	pthread_t thread;
	void *object;

	s = cache_make("conn", CONN, NULL);
	object = made_here(s);
	pthread_barrier_init(&together, NULL, 2);
	pthread_create(&thread, NULL, free_it, object);
	MISUSE(free_it(object); pthread_join(thread, NULL));
}
