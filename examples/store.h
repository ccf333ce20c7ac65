/* SPDX-License-Identifier: MIT */
/*
 * A store allocates the objects of one type: from libsheaf if it has a cache, otherwise from
 * malloc, so that a program can run on both.
 *
 * The program counts the objects, and adds up many of them first: changing a shared counter for
 * each object would cost more than the object.
 */
#ifndef EXAMPLES_STORE_H
#define EXAMPLES_STORE_H

#include <sheaf/slab.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct store {
	const char *name;
	size_t size;
	struct kmem_cache *cache; /* NULL: malloc */
	atomic_size_t live, peak;
};

static inline void *store_get(struct store *store)
{
	void *object =
		store->cache ? kmem_cache_alloc(store->cache, GFP_KERNEL) : malloc(store->size);

	if (!object) {
		fprintf(stderr, "words: no memory for another %s\n", store->name);
		exit(1);
	}
	return object;
}

static inline void store_put(struct store *store, void *object)
{
	if (store->cache)
		kmem_cache_free(store->cache, object);
	else
		free(object);
}

static inline void store_got(struct store *store, size_t objects)
{
	size_t live = atomic_fetch_add(&store->live, objects) + objects;
	size_t peak = atomic_load(&store->peak);

	while (live > peak && !atomic_compare_exchange_weak(&store->peak, &peak, live))
		;
}

static inline void store_gave(struct store *store, size_t objects)
{
	atomic_fetch_sub(&store->live, objects);
}

#endif
