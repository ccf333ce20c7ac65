/* SPDX-License-Identifier: MIT */
/*
 * kmem_cache_shrink visits each partial slab once: its steps are counted for few slabs and for
 * many. The resulting list is sorted, fullest first, as far as slabs are worth sorting.
 */
#include <stdio.h>

#include "cache/cache.h"
#include "os/machine.h"
#include "sim/sim.h"
#include "slab/partial.h"

enum {
	FEW = 100,
	MANY = 600,
	SIZE = 64,
	MOST_FREE = 40, /* of an untouched slab's objects; 0 to this many are freed */
	SORTED = 32,
	STEPS_A_SLAB = 2,
	ROOM = 65536
};

static void *objects[ROOM];
static struct kmem_cache *s;

static void check_list(unsigned int slabs)
{
	const struct slab_node *node = s->sheaf.slab.nodes[0];
	const struct slab *before = NULL;
	unsigned int n = 0, free = 0;

	for (const struct slab *slab = partial_slab(node, node->first); slab;
	     slab = partial_slab(node, slab->next), n++) {
		unsigned int now = slab_free(&s->sheaf.slab, slab->state);

		if (partial_slab(node, slab->prev) != before || !(slab->state & SLAB_LISTED))
			sim_fail("slab %u of the list is not linked as it should be", n);
		if (now < free && free <= SORTED)
			sim_fail("slab %u has %u free objects, the one before it %u", n, now, free);
		free = now;
		before = slab;
	}
	if (partial_slab(node, node->last) != before || node->nr_partial != n)
		sim_fail("%u slabs are listed, %u counted", n, node->nr_partial);
	if (n > slabs || n < slabs / 2)
		sim_fail("%u slabs are listed after %u were used", n, slabs);
}

/* Steps of a shrink with a list of about this many slabs. */
static uint64_t steps_for(unsigned int slabs)
{
	unsigned int a_slab, n, kept = 0;
	uint64_t steps;

	s = kmem_cache_create("shrink", SIZE, NULL, SLAB_NO_MERGE | SLAB_NO_SHEAVES);
	a_slab = s->sheaf.slab.oo.objects;
	n = slabs * a_slab;
	if (n > ROOM)
		sim_fail("no room for %u objects", n);
	for (unsigned int i = 0; i < n; i++) {
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
		if (!objects[i])
			sim_fail("no memory");
	}
	/* Slab by slab: free this many objects, and all objects of some slabs. */
	for (unsigned int i = 0; i < n; i++) {
		unsigned int slab = i / a_slab, to_free = slab * 7 % (MOST_FREE + 1);

		if (slab % 16 == 0 || i % a_slab < to_free)
			kmem_cache_free(s, objects[i]);
		else
			objects[kept++] = objects[i];
	}
	steps = sim_steps();
	kmem_cache_shrink(s);
	steps = sim_steps() - steps;
	check_list(slabs);
	kmem_cache_free_bulk(s, kept, objects);
	if (kmem_cache_shrink(s))
		sim_fail("slabs are left");
	kmem_cache_destroy(s);
	return steps;
}

static void count(unsigned int fibre, void *unused)
{
	uint64_t few = steps_for(FEW), many = steps_for(MANY);

	(void)fibre, (void)unused;
	printf("steps of a shrink: %llu with %d slabs, %llu with %d\n", (unsigned long long)few,
	       FEW, (unsigned long long)many, MANY);
	fflush(stdout);
	if (many - few > STEPS_A_SLAB * (MANY - FEW))
		sim_fail("a slab more costs more than %d steps", STEPS_A_SLAB);
}

static int run(void *data)
{
	sim_start(data);
	sim_run(1, count, NULL);
	return 0;
}

int main(void)
{
	struct sim_config config = {.seed = 1,
				    .cpus = 1,
				    .nodes = 1,
				    .backend = OS_BACKEND_RSEQ,
				    .silent = true,
				    .max_steps = UINT64_MAX};
	uint64_t hash;

	return sim_in_child(run, &config, &hash);
}
