/* SPDX-License-Identifier: MIT */
/*
 * What slow paths read on a machine of 384 CPUs that have all used the cache: one word says that no
 * slab was deferred; and when no barn has an empty (a full) sheaf, a search that has found out
 * reads its own shard and one other place, until a sheaf is put somewhere. Each load is a step.
 */
#include <stdio.h>

#include "cache/cache.h"
#include "os/machine.h"
#include "percpu/barn/barn.h"
#include "percpu/barn/cells.h"
#include "percpu/percpu.h"
#include "percpu/sheaf.h"
#include "sim/sim.h"

enum {
	CPUS = 384,
	SEARCHES = 400,
	FINDS = 2 * (CPUS + BARN_PARTS),
	LAST = 100,	 /* searches, when all have been looked at */
	MOST_STEPS = 96, /* of one: 22 cells of a shard, and of another one or 8 of 7 blocks */
};

static struct kmem_cache *s;

static void use_all_cpus(void)
{
	for (unsigned int cpu = 0; cpu < os.nr_cpus; cpu++) {
		sim_go_to(cpu);
		if (!barn_use(&s->sheaf, cpu))
			sim_fail("no memory");
	}
}

static unsigned int steps_of_search(bool full, bool *found)
{
	uint64_t before = sim_steps();
	struct barn_cell cell;
	struct sheaf *sheaf = full ? barn_begin_full(&s->sheaf, os_node(), &cell)
				   : barn_begin_empty(&s->sheaf, os_node(), NULL, &cell);

	before = sim_steps() - before;
	*found = sheaf;
	if (sheaf)
		barn_finish(&s->sheaf, &cell, NULL);
	if (sheaf)
		sheaf_release(&s->sheaf, sheaf);
	return (unsigned int)before;
}

/* Searches that find nothing: the most steps of the first ones, and of the last ones. */
static void search_in_vain(bool full, unsigned int *first, unsigned int *last)
{
	bool found;

	*first = *last = 0;
	for (unsigned int i = 0; i < SEARCHES; i++) {
		unsigned int steps = steps_of_search(full, &found),
			     *most = i < SEARCHES - LAST ? first : last;

		if (found)
			sim_fail("there was no sheaf to be found");
		*most = steps > *most ? steps : *most;
	}
	printf("%s sheaf is nowhere: a search takes %u steps at first, then %u\n",
	       full ? "a full" : "an empty", *first, *last);
	fflush(stdout);
	if (*last > MOST_STEPS)
		sim_fail("too many");
}

/*
 * The mark is cleared, and a CPU of the node finds the sheaf: at worst it examines one place in
 * each search, and takes the sheaf on the second visit (BARN-N2).
 */
static void put_and_find(unsigned int from, unsigned int by)
{
	struct sheaf *sheaf = sheaf_new(&s->sheaf);
	bool found = false;

	sim_go_to(from);
	if (!sheaf || !barn_put_empty(&s->sheaf, sheaf))
		sim_fail("no room for an empty sheaf");
	sim_go_to(by);
	for (unsigned int i = 0; i < FINDS && !found; i++)
		steps_of_search(false, &found);
	if (!found)
		sim_fail("CPU %u does not find the sheaf of CPU %u", by, from);
}

static void look(unsigned int fibre, void *unused)
{
	unsigned int first, last;
	uint64_t before;

	(void)fibre, (void)unused;
	use_all_cpus();
	sim_go_to(5);
	search_in_vain(false, &first, &last);
	search_in_vain(true, &first, &last);
	put_and_find(CPUS / (os.nr_nodes * 2), 5);
	search_in_vain(false, &first, &last);
	before = sim_steps();
	sheaf_give_deferred(&s->sheaf);
	printf("nothing is deferred: %u step\n", (unsigned int)(sim_steps() - before));
	fflush(stdout);
	if (sim_steps() - before != 1)
		sim_fail("too many");
}

static int run(void *data)
{
	sim_start(data);
	s = kmem_cache_create("hints", 64, NULL, SLAB_NO_MERGE);
	if (!s)
		sim_fail("no memory");
	sim_run(1, look, NULL);
	return 0;
}

int main(void)
{
	struct sim_config config = {.seed = 1,
				    .cpus = CPUS,
				    .backend = OS_BACKEND_RSEQ,
				    .silent = true,
				    .max_steps = 1 << 24};
	uint64_t hash;
	int failed = 0;

	for (config.nodes = 1; config.nodes <= 8; config.nodes *= 8)
		failed += sim_in_child(run, &config, &hash) != 0;
	return failed != 0;
}
