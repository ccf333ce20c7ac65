/* SPDX-License-Identifier: MIT */
/*
 * Slabs whose listing was deferred: none is left without the flag that slow paths test, and the
 * cost of that test does not depend on the number of nodes.
 */
#include <stdio.h>

#include "cache/cache.h"
#include "os/machine.h"
#include "percpu/percpu.h"
#include "sim/sim.h"
#include "slab/drain_marks.h"

enum {
	SEEDS = 40,
	PUSHERS = 2,
	TAKERS = 2,
	OBJECTS = 2,
	ROUNDS = 400,
	FREES = 10,
	MOST_STEPS = 24, /* of each, with 2 nodes or 64 */
};

static struct kmem_cache *s;

static void make(size_t size)
{
	s = kmem_cache_create("deferred", size, NULL, SLAB_NO_MERGE);
	if (!s)
		sim_fail("no memory");
}

static void *objects[PUSHERS][OBJECTS];
static unsigned int nr_pushing;

/* As a free does that finds a full slab, and the node's lock held. */
static void push(void *object)
{
	struct slab *slab = page_slab(object);

	os_fetch_or(slab_words(&s->sheaf.slab, slab), 1);
	os_fetch_add(&slab->state, SLAB_HELD - 1);
	slab_defer(&s->sheaf.slab, slab);
}

static void push_or_take(unsigned int fibre, void *unused)
{
	(void)unused;
	for (unsigned int i = 0; fibre < PUSHERS && i < OBJECTS; i++)
		push(objects[fibre][i]);
	nr_pushing -= fibre < PUSHERS;
	while (nr_pushing)
		sheaf_give_deferred(&s->sheaf);
}

static void check(void)
{
	struct slab_cache *slab = &s->sheaf.slab;

	for (uint32_t node = 0; node < os.nr_nodes; node++)
		if (slab->nodes[node] && slab->nodes[node]->deferred != SLAB_NONE &&
		    !slab_has_deferred(slab))
			sim_fail("deferred slabs of node %u, and no flag", node);
	sheaf_give_deferred(&s->sheaf);
	if (kmem_cache_verify(s) || kmem_cache_shrink(s))
		sim_fail("an object is missing");
}

static int storm(void *data)
{
	sim_start(data);
	/* One object a slab: each free finds it full. */
	make(KMEM_CACHE_MAX_SIZE);
	for (int round = 0; round < ROUNDS; round++) {
		for (unsigned int i = 0; i < PUSHERS * OBJECTS; i++)
			objects[i / OBJECTS][i % OBJECTS] = kmem_cache_alloc(s, GFP_KERNEL);
		nr_pushing = PUSHERS;
		sim_run(PUSHERS + TAKERS, push_or_take, NULL);
		check();
	}
	return 0;
}

/* Another node's objects are collected in a sheaf: the shortest slow path. */
static void free_remote(unsigned int fibre, void *data)
{
	const struct sim_config *config = data;
	void *remotes[2 * FREES];
	uint64_t before;

	(void)fibre;
	make(64);
	sim_go_to(0);
	for (unsigned int i = 0; i < 2 * FREES; i++)
		remotes[i] = kmem_cache_alloc_node(s, GFP_KERNEL | __GFP_THISNODE, 1);
	/* Each node's list is there. */
	for (unsigned int node = 0; node < config->nodes; node++)
		kmem_cache_free(s,
				kmem_cache_alloc_node(s, GFP_KERNEL | __GFP_THISNODE, (int)node));
	before = sim_steps();
	for (unsigned int i = 0; i < FREES; i++)
		kmem_cache_free(s, remotes[2 * i]);
	printf("%u nodes: %.1f steps for each object of another node\n", config->nodes,
	       (double)(sim_steps() - before) / FREES);
	fflush(stdout);
	if (sim_steps() - before > MOST_STEPS * FREES)
		sim_fail("that is too much");
}

static int remote(void *data)
{
	sim_start(data);
	sim_run(1, free_remote, data);
	return 0;
}

int main(void)
{
	struct sim_config config = {
		.cpus = 64, .backend = OS_BACKEND_RSEQ, .max_steps = UINT64_MAX};
	uint64_t hash;
	int failed = 0;

	for (config.nodes = 2; config.nodes <= 64; config.nodes *= 2)
		failed += sim_in_child(remote, &config, &hash) != 0;
	config.switching = SIM_ALWAYS / 2;
	config.cpus = 4;
	for (config.seed = 1; config.seed <= SEEDS && !failed; config.seed++) {
		config.nodes = 1 + config.seed % 2;
		failed += sim_in_child(storm, &config, &hash) != 0;
	}
	return failed != 0;
}
