/* SPDX-License-Identifier: MIT */
/*
 * A cache's capacity and budgets while its user, its use and a shrink change them at the same time:
 * in the end the capacity is the user's choice, and the barns' limits match the last settings.
 */

#include "cache/cache.h"
#include "os/machine.h"
#include "percpu/barn/barn.h"
#include "percpu/sheaf.h"
#include "sim/sim.h"

enum {
	SEEDS = 40,
	ROUNDS = 100,
	MANY = 1024, /* exchanges that make sheaves larger */
	TURNED = 32, /* turns: budgets double several times */
	CHOSEN = 70,
	OBJECTS = 9000
};

static struct kmem_cache *s;

static void change(unsigned int fibre, void *unused)
{
	(void)unused;
	switch (fibre) {
	case 0:
		sheaf_see_volume(&s->sheaf);
		break;
	case 1:
		kmem_cache_set_sheaf_capacity(s, CHOSEN);
		break;
	case 2:
		sheaf_forget_flow(&s->sheaf);
		break;
	case 3:
		kmem_cache_set_barn(s, OBJECTS, 0);
		break;
	case 4:
		for (int i = 0; i < TURNED; i++)
			barn_note_imbalance(&s->sheaf, 0, !(i % 2));
		break;
	}
}

static void check(void)
{
	uint32_t shard = s->sheaf.shard_full, full = s->sheaf.barn_full;

	if (sheaf_capacity(&s->sheaf) != CHOSEN)
		sim_fail("the capacity is %u, and not %d", sheaf_capacity(&s->sheaf), CHOSEN);
	barn_set_limits(&s->sheaf);
	if (shard != s->sheaf.shard_full || full != s->sheaf.barn_full)
		sim_fail("limits of %u + %u sheaves, and not %u + %u", shard, full,
			 s->sheaf.shard_full, s->sheaf.barn_full);
}

static int run(void *data)
{
	sim_start(data);
	for (int round = 0; round < ROUNDS; round++) {
		s = kmem_cache_create("capacity", 64, NULL, SLAB_NO_MERGE);
		if (!s)
			sim_fail("no memory");
		while (s->sheaf.exchanges < MANY - 1)
			sheaf_see_volume(&s->sheaf);
		sim_run(5, change, NULL);
		check();
		kmem_cache_destroy(s);
	}
	return 0;
}

int main(void)
{
	struct sim_config config = {.cpus = 4,
				    .nodes = 1,
				    .backend = OS_BACKEND_RSEQ,
				    .switching = SIM_ALWAYS / 2,
				    .max_steps = UINT64_MAX};
	uint64_t hash;

	for (config.seed = 1; config.seed <= SEEDS; config.seed++)
		if (sim_in_child(run, &config, &hash))
			return 1;
	return 0;
}
