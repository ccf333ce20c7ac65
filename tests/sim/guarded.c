/* SPDX-License-Identifier: MIT */
/*
 * Guarded objects (slab_debug=G) on any schedule. An object in use belongs to its own cache, also
 * in a slot whose last cache is just being destroyed. Its red zones agree with its size, also while
 * that changes.
 */
#include "cache/cache.h"
#include "debug/guard.h"
#include "sim/sim.h"

enum {
	SEEDS = 60,
	FIBRES = 4,
	ROUNDS = 30,
	OBJECTS = 3,
	SIZE = 400000, /* there are six slots for such objects */
};

static const char *const names[FIBRES] = {"a", "b", "c", "d"};

static void use(struct kmem_cache *own)
{
	void *object = kmem_cache_alloc(own, GFP_NOWAIT);
	struct slab_cache *cache = NULL;
	size_t size = 0;

	if (object && guard_is_ours(object) &&
	    (guard_find(object, &cache, &size) != object || cache != &own->sheaf.slab))
		sim_fail("an object of cache %s belongs to %s", own->name,
			 cache ? cache->name : "none");
	kmem_cache_free(own, object);
}

static void come_and_go(unsigned int fibre, void *unused)
{
	(void)unused;
	for (int round = 0; round < ROUNDS; round++) {
		struct kmem_cache *own = kmem_cache_create(names[fibre], SIZE, NULL, SLAB_NO_MERGE);

		if (!own)
			sim_fail("the cache cannot be made");
		for (int i = 0; i < OBJECTS; i++)
			use(own);
		kmem_cache_destroy(own);
	}
}

static struct kmem_cache *s;
static void *resized;
static unsigned int done;

/* As seen by a child that is forked at any moment. */
static void resize_or_look(unsigned int fibre, void *unused)
{
	(void)unused;
	for (unsigned int less = 1; fibre == 0 && less <= ROUNDS; less++)
		guard_set_size(resized, SIZE - less);
	done |= fibre == 0;
	while (!done)
		if (guard_verify(&s->sheaf.slab))
			sim_fail("a red zone does not agree with its object's size");
}

static int run(void *data)
{
	sim_start(data);
	s = kmem_cache_create("resized", SIZE, NULL, SLAB_NO_MERGE);
	resized = kmem_cache_alloc(s, GFP_NOWAIT);
	if (!guard_is_ours(resized))
		sim_fail("the object is not guarded");
	sim_run(2, resize_or_look, NULL);
	if (kmem_cache_verify(s))
		sim_fail("a fault after the resizes");
	kmem_cache_free(s, resized);
	kmem_cache_destroy(s);
	sim_run(FIBRES, come_and_go, NULL);
	return 0;
}

int main(void)
{
	struct sim_config config = {.cpus = 4,
				    .nodes = 1,
				    .backend = OS_BACKEND_RSEQ,
				    .options = "slab_debug=G;slab_guard=8",
				    .max_steps = UINT64_MAX};

	return sim_first_seeds(run, config, SEEDS);
}
