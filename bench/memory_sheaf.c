/* SPDX-License-Identifier: MIT */
/*
 * Memory probe: resident bytes for each of 10 million objects of 64 bytes, all touched; after freeing
 * them (in order, or with --shuffled in random order); after kmem_cache_shrink().
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sheaf/slab.h"

#define OBJECTS 10000000

static long resident(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long pages = 0;

	if (!file || fscanf(file, "%*d %ld", &pages) != 1)
		exit(1);
	fclose(file);
	return pages * sysconf(_SC_PAGESIZE);
}

static void tell(const char *when, long base)
{
	printf("%-10s %6.2f bytes an object\n", when, (double)(resident() - base) / OBJECTS);
}

static void shuffle(void **objects)
{
	unsigned long state = 88172645463325252ul;

	for (size_t i = OBJECTS - 1; i > 0; i--) {
		size_t j;
		void *swapped = objects[i];

		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		j = state % (i + 1);
		objects[i] = objects[j];
		objects[j] = swapped;
	}
}

int main(int argc, char **argv)
{
	void **objects = malloc(OBJECTS * sizeof(*objects));
	struct kmem_cache *cache;
	long base;

	if (!objects)
		return 1;
	memset(objects, 1, OBJECTS * sizeof(*objects));
	base = resident();
	cache = kmem_cache_create("memory", 64, NULL, SLAB_NO_MERGE);
	for (size_t i = 0; i < OBJECTS; i++) {
		objects[i] = cache ? kmem_cache_alloc(cache, GFP_KERNEL) : NULL;
		if (!objects[i])
			return 1;
		memset(objects[i], 1, 64);
	}
	tell("allocated", base);
	if (argc > 1 && !strcmp(argv[1], "--shuffled"))
		shuffle(objects);
	for (size_t i = 0; i < OBJECTS; i++)
		kmem_cache_free(cache, objects[i]);
	tell("freed", base);
	kmem_cache_shrink(cache);
	tell("shrunk", base);
	return 0;
}
