/* SPDX-License-Identifier: MIT */
/*
 * Retired objects go home: those that CPUs of another node retire reach their own node's CPUs, in
 * whole sheaves, and no others; and none stays in a sheaf that is not full.
 */

#include "os/machine.h"
#include "page/limit.h"
#include "page/page.h"
#include "sim/kit/model.h"
#include "sim/kit/readers.h"
#include "sim/kit/slabs.h"
#include "sim/sim.h"
#include <sheaf/rcu.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>

enum {
	CAPACITY = 12,
	OBJECTS = 20 * CAPACITY,
	HERE = 0, /* a CPU of node 0 */
	FAR = 2,  /* and of node 1 */
	PASSES = 50,
};

static struct kmem_cache *s;
static void *objects[OBJECTS];

static void alloc_all(unsigned int cpu, unsigned int node)
{
	sim_go_to(cpu);
	for (unsigned int i = 0; i < OBJECTS; i++) {
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
		if (!objects[i] || page_node(objects[i]) != node)
			sim_fail("CPU %u gets %p, which is not node %u's", cpu, objects[i], node);
	}
}

static void retire(unsigned int n, unsigned int cpu)
{
	sim_go_to(cpu);
	for (unsigned int i = 0; i < n; i++)
		kmem_cache_free_rcu(s, objects[i]);
}

static struct kmem_cache_stats stats_now(void)
{
	struct kmem_cache_stats stats;

	if (kmem_cache_stats(s, &stats))
		sim_fail("no statistics");
	return stats;
}

/* Grace periods pass, and callbacks run on this CPU. */
static void pass(unsigned int cpu)
{
	sim_go_to(cpu);
	for (unsigned int i = 0; i < PASSES; i++)
		readers_pass();
}

/* All but those in the sheaf that is being filled are allocated again, and no slab is touched. */
static void go_home_whole(unsigned int fibre, void *unused)
{
	uint64_t taken, given;

	(void)fibre, (void)unused;
	alloc_all(HERE, 0);
	retire(OBJECTS, FAR);
	pass(FAR);
	taken = slabs_taken;
	given = slabs_given;
	sim_go_to(HERE);
	for (unsigned int i = 0; i < OBJECTS - CAPACITY; i++)
		if (page_node(objects[i] = kmem_cache_alloc(s, GFP_KERNEL)) != 0)
			sim_fail("an object of another node");
	if (slabs_taken != taken || slabs_given != given)
		sim_fail("objects went through slabs");
	for (unsigned int i = 0; i < OBJECTS - CAPACITY; i++)
		kmem_cache_free(s, objects[i]);
}

/* Callbacks run on any CPU, and what is not needed goes to barns: to those of its node. */
static void stay_at_home(unsigned int fibre, void *unused)
{
	(void)fibre, (void)unused;
	for (unsigned int by = HERE; by <= FAR; by += FAR - HERE) {
		alloc_all(HERE, 0);
		retire(OBJECTS, by);
		pass(FAR);
		if (stats_now().rcu_pending_objects)
			sim_fail("objects wait although their time is up");
		alloc_all(FAR, 1);
		for (unsigned int i = 0; i < OBJECTS; i++)
			kmem_cache_free(s, objects[i]);
	}
}

/* A CPU whose node has no memory takes what has passed on other nodes. */
static void help_out(unsigned int fibre, void *unused)
{
	(void)fibre, (void)unused;
	alloc_all(FAR, 1);
	retire(OBJECTS, FAR);
	pass(FAR);
	page_set_limits(0, OS_PAGE);
	sim_go_to(HERE);
	for (unsigned int i = 0; i < OBJECTS - CAPACITY; i++)
		if (!(objects[i] = kmem_cache_alloc(s, GFP_NOWAIT)))
			sim_fail("no object after %u, although retired ones are free", i);
	page_set_limits(0, 0);
	retire(OBJECTS - CAPACITY, HERE);
}

struct what {
	struct sim_config config;
	void (*body)(unsigned int fibre, void *unused);
};

static int run(void *data)
{
	struct what *what = data;

	sim_start(&what->config);
	readers_register();
	s = kmem_cache_create("retired", 256, NULL, SLAB_NO_MERGE);
	if (!s)
		sim_fail("no memory");
	kmem_cache_set_sheaf_capacity(s, CAPACITY);
	sim_run(1, what->body, NULL);
	kvfree_rcu_barrier();
	if (kmem_cache_verify(s) || kmem_cache_shrink(s))
		sim_fail("objects got lost");
	kmem_cache_destroy(s);
	return 0;
}

int main(void)
{
	/* Time almost stands still, or passes quickly. */
	struct what runs[] = {
		{{.step_ns = 1}, go_home_whole},
		{{.step_ns = 100000, .options = "rcu_delay=1;decay=10000"}, stay_at_home},
		{{.step_ns = 1}, help_out}};
	uint64_t hash;

	for (unsigned int i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
		for (unsigned int backend = OS_BACKEND_TRYLOCK; backend <= OS_BACKEND_RSEQ;
		     backend++) {
			struct sim_config *config = &runs[i].config;

			config->seed = 1;
			config->cpus = 4;
			config->nodes = 2;
			config->backend = backend;
			config->silent = true;
			config->max_steps = 1 << 26;
			if (sim_in_child(run, &runs[i], &hash))
				return 1;
		}
	return 0;
}
