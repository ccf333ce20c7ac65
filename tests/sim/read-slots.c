/* SPDX-License-Identifier: MIT */
/*
 * Reading slots, as statistics do, while others allocate, free and drain: at any moment, a slot's
 * two words name existing sheaves, or the read reports that they were just changing.
 */
#include <stdio.h>

#include "cache/cache.h"
#include "os/machine.h"
#include "os/view.h"
#include "sim/sim.h"

enum {
	SEEDS = 300,
	FIBRES = 3,
	ROUNDS = 60,
	OBJECTS = 20,
	CAPACITY = 4
};

static struct kmem_cache *s;
static unsigned int at_work;

static void use(void)
{
	void *objects[OBJECTS];
	unsigned int n = 0;

	while (n < OBJECTS && (objects[n] = kmem_cache_alloc(s, GFP_KERNEL)) != NULL)
		n++;
	while (n > 0)
		kmem_cache_free(s, objects[--n]);
}

static void look(void)
{
	struct slot_view view;

	for (unsigned int row = 0; row < os.nr_rows; row++)
		if (view_slot(slot_of_row(s->sheaf.at.handle, row), &view) &&
		    ((view.main & SHEAF_SIZE) > CAPACITY || (view.spare & SHEAF_SIZE) > CAPACITY))
			sim_fail("row %u shows sheaves of %llu and %llu objects", row,
				 (unsigned long long)view.main, (unsigned long long)view.spare);
}

static void one_of_three(unsigned int fibre, void *unused)
{
	(void)unused;
	if (fibre == 0)
		while (at_work)
			look();
	for (int i = 0; fibre && i < ROUNDS; i++)
		if (fibre == 1)
			kmem_cache_shrink(s);
		else
			use();
	at_work -= fibre != 0;
}

static int run(void *data)
{
	sim_start(data);
	s = kmem_cache_create("look", 64, NULL, SLAB_NO_MERGE);
	if (!s)
		sim_fail("the cache cannot be made");
	kmem_cache_set_sheaf_capacity(s, CAPACITY);
	at_work = FIBRES - 1;
	sim_run(FIBRES, one_of_three, NULL);
	kmem_cache_destroy(s);
	return 0;
}

int main(void)
{
	struct sim_config config = {
		.cpus = 3, .nodes = 1, .switching = SIM_ALWAYS / 4, .max_steps = 10000000};
	uint64_t hash;
	int failed = 0;

	for (config.seed = 1; config.seed <= SEEDS; config.seed++) {
		config.backend = config.seed % 2 ? OS_BACKEND_RSEQ : OS_BACKEND_TRYLOCK;
		if (sim_in_child(run, &config, &hash)) {
			fprintf(stderr, "seed %llu failed\n", (unsigned long long)config.seed);
			failed++;
		}
	}
	return failed != 0;
}
