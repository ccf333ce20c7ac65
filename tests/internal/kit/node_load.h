/* SPDX-License-Identifier: MIT */
/*
 * Threads that request objects of every node, on every CPU that they may use, and free objects that
 * others got. The first word and the last of each object prove that it has one owner.
 */
#ifndef SHEAF_TESTS_NODE_LOAD_H
#define SHEAF_TESTS_NODE_LOAD_H

#include <pthread.h>

#include "internal/kit/placement.h"
#include "kit/cache.h"
#include "kit/check.h"
#include "kit/objects.h"
#include "kit/process.h"
#include "kit/random.h"
#include "page/page.h"

enum {
	LOAD_THREADS = 8,
	LOAD_BOXES = 64,
	LOAD_ROUNDS = 3000,
	LOAD_SIZE = 64
};

static struct {
	struct kmem_cache *caches[2]; /* with sheaves, and without */
	uint64_t *boxes[2][LOAD_BOXES];
	pthread_t threads[LOAD_THREADS];
	unsigned int running, rounds;
} loads;

static inline void load_once(uint64_t *seed, unsigned int owner, unsigned int sequence)
{
	unsigned int c = random_below(seed, 2), box = random_below(seed, LOAD_BOXES);
	unsigned int node = random_below(seed, os.nr_nodes);
	gfp_t flags = GFP_KERNEL | (random_below(seed, 2) ? __GFP_THISNODE : 0);
	uint64_t *object = kmem_cache_alloc_node(loads.caches[c], flags, (int)node);

	CHECK(object && page_node(object) == node);
	CHECK(stamp_put(object, LOAD_SIZE, owner, sequence));
	CHECK(random_below(seed, 100) || is_placed_on(node, object));
	object = __atomic_exchange_n(&loads.boxes[c][box], object, __ATOMIC_ACQ_REL);
	if (object) {
		CHECK(stamp_remove(object, LOAD_SIZE));
		kmem_cache_free(loads.caches[c], object);
	}
}

static inline void *load_run(void *number)
{
	unsigned int owner = (unsigned int)(uintptr_t)number;
	uint64_t seed = owner + 1;

	for (unsigned int i = 0; i < LOAD_ROUNDS; i++) {
		if (!random_below(&seed, 50))
			pin(random_below(&seed, os.nr_cpus));
		if (!random_below(&seed, 1000))
			kmem_cache_shrink(loads.caches[random_below(&seed, 2)]);
		load_once(&seed, owner, i);
		__atomic_fetch_add(&loads.rounds, 1, __ATOMIC_RELAXED);
	}
	__atomic_fetch_sub(&loads.running, 1, __ATOMIC_RELEASE);
	return NULL;
}

static inline void load_begin(void)
{
	loads.caches[0] = make("loaded", LOAD_SIZE, no_samples());
	loads.caches[1] = make("loaded-bare", LOAD_SIZE, SLAB_NO_SHEAVES | no_samples());
	loads.running = LOAD_THREADS;
	for (uintptr_t i = 0; i < LOAD_THREADS; i++)
		CHECK(pthread_create(&loads.threads[i], NULL, load_run, (void *)i) == 0);
}

/* Wait until the threads have done n rounds more; false if they have ended. */
static inline bool load_goes_on(unsigned int n)
{
	unsigned int begin = __atomic_load_n(&loads.rounds, __ATOMIC_RELAXED);

	while (__atomic_load_n(&loads.running, __ATOMIC_ACQUIRE)) {
		if (__atomic_load_n(&loads.rounds, __ATOMIC_RELAXED) - begin >= n)
			return true;
		usleep(1000);
	}
	return false;
}

/* Wait for the threads, and free everything; false if something is left or wrong. */
static inline bool load_end(void)
{
	bool fine = true;

	for (unsigned int i = 0; i < LOAD_THREADS; i++)
		pthread_join(loads.threads[i], NULL);
	for (unsigned int c = 0; c < 2; c++) {
		struct kmem_cache *s = loads.caches[c];

		for (unsigned int i = 0; i < LOAD_BOXES; i++) {
			kmem_cache_free(s, loads.boxes[c][i]);
			loads.boxes[c][i] = NULL;
		}
		fine &= kmem_cache_verify(s) == 0 && all_freed(s) && kmem_cache_shrink(s) == 0 &&
			look(s).slabs == 0;
		kmem_cache_destroy(s);
	}
	return fine;
}

#endif
