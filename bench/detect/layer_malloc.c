/* SPDX-License-Identifier: MIT */
/* The detection table on malloc: a cache is just a size, and a list has the retired objects. */
#include <dlfcn.h>
#include <stdlib.h>

#include "detect.h"

enum {
	RETIRED = 64
};

const bool has_caches = false;

void detect_made(struct cache *s);

struct cache {
	size_t size;
	void (*ctor)(void *object);
};

static struct cache caches[8];
static unsigned int nr_caches;
static void *retired[RETIRED];
static unsigned int nr_retired;

struct cache *cache_make(const char *name, size_t size, void (*ctor)(void *object))
{
	struct cache *s = &caches[nr_caches++];

	(void)name;
	s->size = size;
	s->ctor = ctor;
	detect_made(s);
	return s;
}

void *cache_take(struct cache *s)
{
	void *object = malloc(s->size);

	if (object && s->ctor)
		s->ctor(object);
	return object;
}

void cache_give(struct cache *s, void *object)
{
	(void)s;
	free(object);
}

void cache_give_many(struct cache *s, size_t n, void **objects)
{
	(void)s;
	for (size_t i = 0; i < n; i++)
		free(objects[i]);
}

void cache_retire(struct cache *s, void *object)
{
	(void)s;
	if (nr_retired == RETIRED)
		abort();
	retired[nr_retired++] = object;
}

void grace_pass(void)
{
	while (nr_retired) {
		void *object = retired[--nr_retired];

		retired[nr_retired] = NULL; /* nothing may find it there */
		free(object);
	}
}

void cache_end(struct cache *s)
{
	(void)s;
}

void *block_take(size_t size)
{
	return malloc(size);
}

void block_give(void *block)
{
	free(block);
}

void *block_resize(void *block, size_t size)
{
	return realloc(block, size);
}

/* By operator new, from the preloaded library if it has one. */
void *block_of_other_kind(size_t size)
{
	void *(*make)(size_t) = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "_Znwm");

	if (!make) {
		void *library = dlopen("libstdc++.so.6", RTLD_NOW);

		make = library ? (void *(*)(size_t))dlsym(library, "_Znwm") : NULL;
	}
	return make ? make(size) : NULL;
}

void give_to_other_kind(void *block)
{
	free(block);
}
