/* SPDX-License-Identifier: MIT */
/*
 * Barriers while others retire: a sheaf in hand, between its slot and the queue, holds objects that
 * were retired earlier. Fibres pause for long, so that a whole barrier fits into that time. On
 * several nodes they also free objects of other nodes, whose sheaves and those of retired ones take
 * turns in a slot. With half of the seeds, sheaves of retired objects are larger than those that
 * barns take, barns are small, and another fibre changes the capacity.
 */
#include <stdio.h>

#include "cache/cache.h"
#include "os/machine.h"
#include "rcu/rcu_free.h"
#include "sim/kit/model.h"
#include "sim/kit/readers.h"
#include "sim/sim.h"

enum {
	SEEDS = 300,
	RETIRERS = 3,
	OBJECTS = 400, /* of each */
	BARRIERS = 60,
	CAPACITY = 3,
	CHANGES = 1000, /* of the capacity */
	LARGER = 8	/* of retired objects */
};

static struct kmem_cache *s;
static bool larger;

static void set_capacity(unsigned int capacity)
{
	kmem_cache_set_sheaf_capacity(s, capacity);
	if (larger)
		os_store_relaxed(&s->sheaf.retired, LARGER);
}

static void retire_all(void)
{
	for (unsigned int i = 0; i < OBJECTS; i++) {
		void *object = kmem_cache_alloc(s, GFP_KERNEL);
		uint64_t which;

		if (!object)
			sim_fail("no memory");
		model_add(s, object, 0);
		if (os.nr_nodes > 1)
			sim_go_to(sim_below(os.nr_cpus));
		if (os.nr_nodes > 1 && sim_below(2)) {
			model_remove(s, object);
			kmem_cache_free(s, object);
			continue;
		}
		which = model_retire(s, object, false);
		kmem_cache_free_rcu(s, object);
		model_was_retired(object, which);
	}
}

static void change_capacity(void)
{
	for (unsigned int i = 0; larger && i < CHANGES; i++)
		set_capacity(1 + sim_below(2 * CAPACITY));
}

static void fibre_of_storm(unsigned int fibre, void *unused)
{
	(void)unused;
	if (fibre < RETIRERS) {
		retire_all();
		return;
	}
	if (fibre > RETIRERS) {
		change_capacity();
		return;
	}
	for (unsigned int i = 0; i < BARRIERS; i++) {
		uint64_t moment = model_moment();

		kvfree_rcu_barrier_on_cache(s);
		model_has_passed(s, moment);
		sheaf_for_each_retired(&s->sheaf, model_found_waiting, NULL);
	}
	/* Sheaves that were in hand at that time are queued by now. */
	for (unsigned int i = 0; i < 2000; i++) {
		sheaf_for_each_retired(&s->sheaf, model_found_waiting, NULL);
		readers_pass();
	}
}

static int run(void *data)
{
	sim_start(data);
	readers_register();
	s = kmem_cache_create("barrier", 64, NULL, SLAB_NO_MERGE);
	if (!s)
		sim_fail("no memory");
	larger = ((struct sim_config *)data)->seed / 8 % 2;
	set_capacity(CAPACITY);
	if (larger)
		kmem_cache_set_barn(s, 1, 1);
	sim_run(RETIRERS + 2, fibre_of_storm, NULL);
	kvfree_rcu_barrier();
	model_all_freed();
	if (kmem_cache_verify(s))
		sim_fail("a fault at the end");
	if (kmem_cache_shrink(s))
		sim_fail("slabs remain when all objects were freed");
	kmem_cache_destroy(s);
	return 0;
}

int main(void)
{
	struct sim_config config = {.cpus = 2,
				    .nodes = 1,
				    .switching = SIM_ALWAYS / 8,
				    .migration = SIM_ALWAYS / 16,
				    .stall = SIM_ALWAYS / 256,
				    .stall_steps = 4096,
				    .silent = true,
				    .max_steps = 1 << 26};
	uint64_t hash;

	for (config.seed = 1; config.seed <= SEEDS; config.seed++) {
		config.backend = config.seed % 2 ? OS_BACKEND_RSEQ : OS_BACKEND_TRYLOCK;
		config.cpus = config.nodes = 1 << config.seed / 2 % 4;
		config.cpus += config.nodes == 1;
		if (sim_in_child(run, &config, &hash))
			return 1;
	}
	return 0;
}
