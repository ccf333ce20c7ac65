/* SPDX-License-Identifier: MIT */
/*
 * kmem_cache_shrink visits empty slabs only: its steps are counted with few partial slabs and with
 * many, and with many empty ones. Partial slabs keep their places; nolock frees leave empty slabs
 * that the next shrink finds, whether they had the lock of the node or not. If a program shrinks a
 * cache from time to time, slabs with few objects become empty.
 */
#include <stdio.h>

#include "cache/cache.h"
#include "os/machine.h"
#include "sim/kit/quiet.h"
#include "sim/sim.h"
#include "slab/partial.h"

enum {
	FEW = 100,
	MANY = 600,
	SIZE = 64,
	EMPTY = 30,
	STEPS_A_SLAB = 60, /* which returns its page */
	ROOM = 65536
};

static void *objects[ROOM];
static struct kmem_cache *s;

/* Of this many slabs, some are empty, and the others partial. Returns the steps of a shrink. */
static uint64_t steps_for(unsigned int slabs, unsigned int empty)
{
	unsigned int a_slab, n, kept = 0, left;
	uint64_t steps;

	s = kmem_cache_create("shrink", SIZE, NULL, SLAB_NO_MERGE | SLAB_NO_SHEAVES);
	a_slab = s->sheaf.slab.oo.objects;
	s->sheaf.slab.min_partial = MANY;
	n = slabs * a_slab;
	if (n > ROOM)
		sim_fail("no room for %u objects", n);
	for (unsigned int i = 0; i < n; i++) {
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
		if (!objects[i])
			sim_fail("no memory");
	}
	for (unsigned int i = 0; i < n; i++)
		if (i / a_slab < empty || i % a_slab == 0)
			i % 3 ? kmem_cache_free(s, objects[i])
			      : kmem_cache_free_nolock(s, objects[i]);
		else
			objects[kept++] = objects[i];
	quiet_slabs(&s->sheaf.slab);
	if (s->sheaf.slab.nodes[0]->nr_unused != empty)
		sim_fail("%u slabs are empty, %u counted", empty,
			 s->sheaf.slab.nodes[0]->nr_unused);
	steps = sim_steps();
	left = (unsigned int)kmem_cache_shrink(s);
	steps = sim_steps() - steps;
	if (!left != (slabs == empty) || s->sheaf.slab.nodes[0]->nr_slabs != slabs - empty)
		sim_fail("%u slabs are left of %u, %u of which were empty",
			 s->sheaf.slab.nodes[0]->nr_slabs, slabs, empty);
	quiet_slabs(&s->sheaf.slab);
	kmem_cache_free_bulk(s, kept, objects);
	if (kmem_cache_shrink(s))
		sim_fail("slabs are left");
	kmem_cache_destroy(s);
	return steps;
}

static void count(unsigned int fibre, void *unused)
{
	uint64_t few = steps_for(FEW, EMPTY), many = steps_for(MANY, EMPTY);
	uint64_t empty = steps_for(MANY, MANY);

	(void)fibre, (void)unused;
	printf("steps of a shrink: %llu with %d slabs, %llu with %d; %llu with as many empty\n",
	       (unsigned long long)few, FEW, (unsigned long long)many, MANY,
	       (unsigned long long)empty);
	fflush(stdout);
	if (many > few + 50)
		sim_fail("a partial slab more costs steps");
	if (empty - many > STEPS_A_SLAB * (MANY - EMPTY))
		sim_fail("an empty slab more costs more than %d steps", STEPS_A_SLAB);
}

/* --- nolock frees while another fibre has the lock of the node --- */

enum {
	STRAYS = 3
};

static unsigned int held, nr_strays;
static struct slab_node *node;

static void hold_or_free(unsigned int fibre, void *unused)
{
	(void)unused;
	if (fibre) {
		os_lock(&node->lock);
		os_store_relaxed(&held, 1);
		while (os_load_relaxed(&held))
			;
		os_unlock(&node->lock);
		return;
	}
	while (!os_load_relaxed(&held))
		;
	for (unsigned int i = 0; i < nr_strays; i++)
		kmem_cache_free_nolock(s, objects[i]);
	os_store_relaxed(&held, 0);
}

/* One object of each slab is in use; each slab is listed. */
static void leave_strays(unsigned int n, bool by_time)
{
	unsigned int a_slab, kept = 0;

	s = kmem_cache_create("strays", 2048, NULL, SLAB_NO_MERGE | SLAB_NO_SHEAVES);
	a_slab = s->sheaf.slab.oo.objects;
	for (unsigned int i = 0; i < (n + 1) * a_slab; i++)
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
	for (unsigned int i = 0; i < (n + 1) * a_slab; i++)
		if (i % a_slab)
			kmem_cache_free(s, objects[i]);
		else
			objects[kept++] = objects[i];
	node = s->sheaf.slab.nodes[0];
	nr_strays = n;
	sim_run(2, hold_or_free, NULL);
	quiet_slabs(&s->sheaf.slab);
	if (kmem_cache_verify(s))
		sim_fail("a fault beside strays");
	if (node->nr_slabs != n + 1 || node->nr_unused)
		sim_fail("a slab went without the lock of its node");
	if (by_time)
		slab_free_kept(&s->sheaf.slab);
	else
		kmem_cache_shrink(s);
	if (node->nr_slabs != 1)
		sim_fail("%u slabs are left after %u became empty", node->nr_slabs, n);
	kmem_cache_free(s, objects[n]);
	kmem_cache_destroy(s);
}

/* --- objects come and go at random, with a shrink from time to time --- */

enum {
	KEPT = 4000,
	CHURNS = 24,
	SHRINKS = 4 /* one in so many rounds */
};

/* Free all but n of the objects, at random, or allocate up to n. Returns n. */
static unsigned int change(unsigned int from, unsigned int n)
{
	for (; from > n; from--) {
		unsigned int i = sim_below(from);

		kmem_cache_free(s, objects[i]);
		objects[i] = objects[from - 1];
	}
	for (; from < n; from++)
		objects[from] = kmem_cache_alloc(s, GFP_KERNEL);
	return n;
}

static void churn(unsigned int fibre, void *unused)
{
	unsigned int n, least, slabs;

	(void)fibre, (void)unused;
	s = kmem_cache_create("churn", SIZE, NULL, SLAB_NO_MERGE | SLAB_NO_SHEAVES);
	n = change(0, 2 * KEPT);
	for (int i = 0; i < CHURNS; i++) {
		n = change(n, sim_below(2) ? KEPT : 2 * KEPT / 5);
		if (i % SHRINKS == 0)
			kmem_cache_shrink(s);
		n = change(n, KEPT);
	}
	kmem_cache_shrink(s);
	least = KEPT / s->sheaf.slab.oo.objects + 1;
	slabs = s->sheaf.slab.nodes[0]->nr_slabs;
	printf("%d objects are in %u slabs, which fit into %u\n", KEPT, slabs, least);
	fflush(stdout);
	if (slabs > least + least / 2)
		sim_fail("that is too many");
	kmem_cache_free_bulk(s, n, objects);
	kmem_cache_destroy(s);
}

static int run(void *data)
{
	sim_start(data);
	sim_run(1, count, NULL);
	sim_run(1, churn, NULL);
	for (unsigned int n = 1; n <= STRAYS; n++)
		for (int by_time = 0; by_time < 2; by_time++)
			leave_strays(n, by_time);
	return 0;
}

int main(void)
{
	struct sim_config config = {.seed = 1,
				    .cpus = 1,
				    .nodes = 1,
				    .backend = OS_BACKEND_RSEQ,
				    .switching = SIM_ALWAYS / 4,
				    .silent = true,
				    .max_steps = UINT64_MAX};
	uint64_t hash;

	return sim_in_child(run, &config, &hash);
}
