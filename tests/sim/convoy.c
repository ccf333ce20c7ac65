/* SPDX-License-Identifier: MIT */
/*
 * Many threads on one CPU, without restartable sequences: a preempted thread holds the slot's lock
 * for long, but the others do not move a sheaf of objects for each object that they allocate.
 */

#include "cache/cache.h"
#include "os/machine.h"
#include "sim/kit/slabs.h"
#include "sim/sim.h"

enum {
	SEEDS = 20,
	FIBRES = 8,
	ROUNDS = 100,
	BATCH = 10,
};

static struct kmem_cache *s;

static void use(unsigned int fibre, void *unused)
{
	void *objects[BATCH];

	(void)fibre, (void)unused;
	sim_go_to(0);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < BATCH; i++) {
			objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
			if (!objects[i])
				sim_fail("no memory");
		}
		for (int i = 0; i < BATCH; i++)
			kmem_cache_free(s, objects[i]);
	}
}

static int run(void *data)
{
	uint64_t passed, pairs = (uint64_t)FIBRES * ROUNDS * BATCH;

	sim_start(data);
	s = kmem_cache_create("convoy", 64, NULL, SLAB_NO_MERGE);
	if (!s)
		sim_fail("no memory");
	sim_run(FIBRES, use, NULL);
	passed = slabs_taken + slabs_given;
	/* The objects that fill the sheaves of every slot once, and at most a tenth of the pairs in
	 * addition. */
	if (passed > pairs / 10 + (OS_STAND_INS + 1) * 3 * sheaf_capacity(&s->sheaf))
		sim_fail("%llu objects passed by slabs, of %llu pairs", (unsigned long long)passed,
			 (unsigned long long)pairs);
	if (kmem_cache_verify(s) || kmem_cache_shrink(s))
		sim_fail("objects are left when all were freed");
	return 0;
}

int main(void)
{
	struct sim_config config = {.cpus = 2,
				    .nodes = 1,
				    .backend = OS_BACKEND_TRYLOCK,
				    .switching = SIM_ALWAYS / 200,
				    .silent = true,
				    .max_steps = UINT64_MAX};
	uint64_t hash;

	for (config.seed = 1; config.seed <= SEEDS; config.seed++)
		if (sim_in_child(run, &config, &hash))
			return 1;
	return 0;
}
