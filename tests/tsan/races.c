/* SPDX-License-Identifier: MIT */
/*
 * Programs with one race each, for the thread sanitizer, which must see it:
 *
 *     races use-after-free   one thread frees an object, another one reads it
 *     races two-owners       two threads write to one object
 *     races reused           one thread reads an object that it freed; another one has it by then
 *
 * The order is always the same, and is one that the sanitizer does not see.
 */
#include <pthread.h>
#include <sheaf/slab.h>
#include <stdio.h>
#include <string.h>

#include "turns.h"

static struct kmem_cache *cache;
static long *object, *neighbour;

static void *reader(void *unused)
{
	wait_for(1);
	*neighbour = *object;
	next_turn();
	return unused;
}

static void *writer(void *unused)
{
	wait_for(1);
	*object = 2;
	next_turn();
	return unused;
}

static void *next_owner(void *unused)
{
	long *mine;

	wait_for(1);
	mine = kmem_cache_alloc(cache, GFP_KERNEL);
	if (mine)
		*mine = 3;
	next_turn();
	return unused;
}

static void race(const char *kind)
{
	long *mine = object;

	if (!strcmp(kind, "use-after-free"))
		kmem_cache_free(cache, mine);
	else if (!strcmp(kind, "two-owners"))
		*mine = 1;
	else
		kmem_cache_free(cache, mine);
	next_turn();
	wait_for(2);
	if (!strcmp(kind, "reused"))
		*neighbour = *mine;
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "";
	void *(*other)(void *) = !strcmp(kind, "use-after-free") ? reader
				 : !strcmp(kind, "two-owners")	 ? writer
				 : !strcmp(kind, "reused")	 ? next_owner
								 : NULL;
	pthread_t thread;

	/* The last freed object is allocated next, on any CPU. */
	cache = kmem_cache_create("raced", 64, NULL, SLAB_NO_SHEAVES);
	if (!other || !cache)
		return 2;
	neighbour = kmem_cache_alloc(cache, GFP_KERNEL);
	object = kmem_cache_alloc(cache, GFP_KERNEL);
	if (!neighbour || !object || pthread_create(&thread, NULL, other, NULL))
		return 2;
	race(kind);
	pthread_join(thread, NULL);
	return 0;
}
