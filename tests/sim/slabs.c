/* SPDX-License-Identifier: MIT */
/*
 * The slab layer alone (SLAB-B1, SLAB-B2, SLAB-B4, SLAB-B7): fibres take from slabs of few objects,
 * and give back what any of them took, so that slabs become full and empty all the time. Two caches
 * make slabs of the same pages. In some runs slabs have four pages, and about half of them, for
 * which there are no four, have one.
 *
 *   object   | the constructor's mark | whether it is in use | ...
 *
 * Pages that a slab returns are zeroed immediately. So an object that is allocated twice, whose
 * slab is freed while it is in use, or that is constructed twice or not at all is found when it is
 * taken, given back or constructed.
 *
 *   slabs [SEEDS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "os/atomic.h"
#include "os/machine.h"
#include "os/report/report.h"
#include "sim/kit/quiet.h"
#include "sim/sim.h"
#include "slab/drain_marks.h"
#include "slab/partial.h"

enum {
	QUICK_SEEDS = 500,
	MOST_FAILED = 10,
	ROUNDS = 6,
	OPERATIONS = 60, /* of a fibre in a round */
	MOST_USED = 640,
	MOST_AT_ONCE = 80,
	MAX_STEPS = 1000000,
};

#define CONSTRUCTED UINT64_C(0xc0457c7ed0b1ec75)

struct object {
	uint64_t constructed, in_use;
};

static struct run {
	struct sim_config config;
	unsigned int size, fibres;
	bool constructed; /* the caches have a constructor */
	bool one_by_one;  /* each call takes or gives one object */
	bool doubles;	  /* objects are given twice in one call */
	bool waits;	  /* every give may wait, so that empty slabs are returned immediately */
	bool falls_back;  /* at times there are only single pages */
} now;

/* Two caches, and their objects in use: any fibre may give any of these back. */
static struct cache {
	struct kmem_cache *s;
	struct slab_cache *slabs;
	struct object *used[MOST_USED];
	unsigned int nr_used, most_used;
	bool grows; /* more is taken than given, for a while */
} caches_used[2];

void __real_page_free(struct slab *slab, unsigned int order);
void __wrap_page_free(struct slab *slab, unsigned int order);

void __wrap_page_free(struct slab *slab, unsigned int order)
{
	memset(page_address(slab), 0, OS_PAGE << order);
	__real_page_free(slab, order);
}

unsigned int __real_page_alloc_runs(unsigned int node, unsigned int order, struct slab **runs,
				    unsigned int n);
unsigned int __wrap_page_alloc_runs(unsigned int node, unsigned int order, struct slab **runs,
				    unsigned int n);

unsigned int __wrap_page_alloc_runs(unsigned int node, unsigned int order, struct slab **runs,
				    unsigned int n)
{
	return now.falls_back && sim_below(2) ? 0 : __real_page_alloc_runs(node, order, runs, n);
}

static void construct(void *at)
{
	static uint32_t any;
	struct object *object = at;

	if (sim_holds_locks())
		sim_fail("a constructor runs with a lock held");
	if (now.fibres == 1 && page_slab(at)->state & SLAB_HELD)
		sim_fail("a constructor runs with its slab held");
	if (object->constructed || object->in_use)
		sim_fail("an object is constructed that was constructed before");
	object->constructed = CONSTRUCTED;
	os_load_relaxed(&any); /* others may run meanwhile */
}

static void own(struct cache *c, void *const *objects, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		struct object *object = objects[i];

		if (object->constructed != (now.constructed ? CONSTRUCTED : 0))
			sim_fail("an object that was not constructed is handed out");
		if (object->in_use)
			sim_fail("an object in use is handed out");
		object->in_use = 1;
		c->used[c->nr_used++] = object;
	}
}

static void disown(struct cache *c, void **objects, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		unsigned int which = sim_below(c->nr_used);
		struct object *object = c->used[which];

		if (!object->in_use)
			sim_fail("a slab went away with an object in use");
		object->in_use = 0;
		objects[i] = object;
		c->used[which] = c->used[--c->nr_used];
	}
}

/* If there is room: others may have taken as many meanwhile. */
static void own_or_give(struct cache *c, void *const *objects, unsigned int n)
{
	if (c->nr_used + n > MOST_USED)
		slab_give(c->slabs, objects, n, "test");
	else
		own(c, objects, n);
}

static void take(struct cache *c, unsigned int n)
{
	enum slab_place place = sim_below(2) ? SLAB_THIS_NODE : SLAB_PREFER_NODE;
	void *objects[MOST_AT_ONCE];

	n = slab_take(c->slabs, sim_below(os.nr_nodes), place, objects, n);
	own_or_give(c, objects, n);
}

static void take_without_waiting(struct cache *c)
{
	void *object;

	if (slab_take_try(c->slabs, sim_below(os.nr_nodes), &object))
		own_or_give(c, &object, 1);
}

static void give(struct cache *c, unsigned int n)
{
	void *objects[MOST_AT_ONCE];

	n = n < c->nr_used ? n : c->nr_used;
	disown(c, objects, n);
	slab_give(c->slabs, objects, n, "test");
}

static void give_without_waiting(struct cache *c)
{
	void *object;

	if (now.waits) {
		give(c, 1);
		return;
	}
	if (!c->nr_used)
		return;
	disown(c, &object, 1);
	slab_give_nolock(c->slabs, object, "test");
}

/* One object two or three times: found before anybody else can have it. */
static void give_twice(struct cache *c)
{
	void *objects[3];

	if (!c->nr_used)
		return;
	disown(c, objects, 1);
	objects[1] = objects[2] = objects[0];
	slab_give(c->slabs, objects, 2 + sim_below(2), "test");
	os_report_kept();
}

static void operate(struct cache *c)
{
	unsigned int kind = sim_below(64), several = 1 + sim_below(2 * c->slabs->oo.objects);

	if (now.one_by_one)
		several = 1;
	several = several < MOST_AT_ONCE ? several : MOST_AT_ONCE;
	if (kind == 0)
		slab_shrink(c->slabs);
	else if (kind < 3)
		c->grows = !c->grows;
	else if (kind < 8 && slab_has_deferred(c->slabs))
		slab_list_deferred(c->slabs);
	else if (kind == 8 && now.doubles)
		give_twice(c);
	else if (c->nr_used < c->most_used && (kind % 4 == 0) != c->grows)
		kind < 24 ? take(c, several) : kind < 32 ? take_without_waiting(c) : take(c, 1);
	else
		kind < 24 ? give(c, several) : kind < 40 ? give_without_waiting(c) : give(c, 1);
}

static void use(unsigned int fibre, void *unused)
{
	(void)fibre, (void)unused;
	for (unsigned int i = 0; i < OPERATIONS; i++)
		operate(&caches_used[sim_below(now.config.seed % 4 < 2 ? 2 : 8) == 0]);
}

static void give_all(unsigned int fibre, void *unused)
{
	(void)fibre, (void)unused;
	for (struct cache *c = caches_used; c < caches_used + 2; c++)
		while (c->nr_used)
			sim_below(2) ? give(c, 1) : give_without_waiting(c);
}

static void make(struct cache *c, const char *name)
{
	struct kmem_cache_args args = {.ctor = now.constructed ? construct : NULL};

	c->s = kmem_cache_create(name, now.size, &args, SLAB_NO_MERGE | SLAB_NO_SHEAVES);
	if (!c->s)
		sim_fail("no memory");
	c->slabs = &c->s->sheaf.slab;
	/* Whether a node keeps an empty slab. */
	c->slabs->min_partial = (uint16_t)(now.config.seed / 2 % 2);
}

/* A give that may wait leaves a node no more empty slabs than it keeps. */
static void check_empty(const struct slab_cache *slabs, unsigned int node)
{
	unsigned int n = 0;
	struct slab *slab;

	if (!slabs->nodes[node])
		return;
	for (slab = partial_slab(slabs->nodes[node], slabs->nodes[node]->first); slab;
	     slab = partial_slab(slabs->nodes[node], slab->next))
		n += slab_inuse(slab->state) == 0;
	if (n > slabs->min_partial)
		sim_fail("node %u has %u empty slabs, and keeps %u", node, n, slabs->min_partial);
}

static void check(struct cache *c)
{
	unsigned int in_use;

	for (unsigned int node = 0; now.waits && node < os.nr_nodes; node++)
		check_empty(c->slabs, node);
	if (kmem_cache_verify(c->s))
		sim_fail("kmem_cache_verify() found faults");
	in_use = quiet_slabs(c->slabs);
	if (in_use != c->nr_used)
		sim_fail("%u objects are in use, %u counted", c->nr_used, in_use);
	c->most_used = 1 + sim_below(4 * c->slabs->oo.objects);
	if (c->most_used > MOST_USED / 2)
		c->most_used = MOST_USED / 2;
}

static int run(void *unused)
{
	(void)unused;
	sim_start(&now.config);
	make(&caches_used[0], "mostly");
	make(&caches_used[1], "at times");
	for (int round = 0; round <= ROUNDS; round++) {
		check(&caches_used[0]);
		check(&caches_used[1]);
		sim_faults(true);
		sim_run(now.fibres, round < ROUNDS ? use : give_all, NULL);
		sim_faults(false);
	}
	for (struct cache *c = caches_used; c < caches_used + 2; c++) {
		check(c);
		if (slab_shrink(c->slabs))
			sim_fail("slabs are left when all objects were given back");
		kmem_cache_destroy(c->s);
	}
	return 0;
}

static struct run run_of_seed(uint64_t seed)
{
	/* 1 to 4 objects a slab; 85 and 256, in two and in four words. */
	static const unsigned int sizes[] = {4096, 2048, 2048, 1024, 1360, 48, 16};
	struct run of_seed = {.size = sizes[seed % 7], .fibres = 1 + seed / 7 % 5};

	of_seed.constructed = seed % 3 == 0;
	of_seed.one_by_one = seed / 3 % 2;
	of_seed.doubles = seed % 64 == 0;
	of_seed.waits = seed / 6 % 4 == 0;
	of_seed.falls_back = seed % 8 >= 6;
	of_seed.config = (struct sim_config){
		.seed = seed,
		.cpus = 1 + seed % 4,
		.nodes = seed % 4 == 3 ? 2 : 1,
		.backend = OS_BACKEND_RSEQ,
		.options = of_seed.falls_back ? "slab_min_objects=32767;slab_max_order=2"
			   : seed % 5	      ? "slab_max_order=0"
					      : "slab_max_order=0;slab_freelist_random",
		.switching = SIM_ALWAYS >> (1 + seed % 3),
		.stall = seed % 2 ? SIM_ALWAYS / 16 : SIM_ALWAYS / 64,
		.stall_steps = 16u << seed % 5,
		.no_memory = seed % 9 ? 0 : SIM_ALWAYS / 4,
		.silent = !of_seed.doubles,
		.max_steps = MAX_STEPS,
	};
	return of_seed;
}

/* --- one lock for many slabs --- */

static unsigned int locked;

void __real_os_lock(struct os_lock *lock);
void __wrap_os_lock(struct os_lock *lock);

void __wrap_os_lock(struct os_lock *lock)
{
	locked += lock->rank == OS_RANK_NODE;
	__real_os_lock(lock);
}

static void took_it_once(const char *what)
{
	if (locked != 1)
		sim_fail("%s took the node's lock %u times", what, locked);
	locked = 0;
}

/* One object of each slab. */
static void give_of_each(struct slab_cache *slabs, void *objects[16][4], unsigned int i)
{
	void *of_each[16];

	for (unsigned int k = 0; k < 16; k++)
		of_each[k] = objects[k][i];
	locked = 0;
	slab_give(slabs, of_each, 16, "test");
}

static void use_at_once(unsigned int fibre, void *slabs)
{
	void *objects[16][4] /* of a slab each */, *taken[5];

	(void)fibre;
	if (slab_take(slabs, 0, SLAB_THIS_NODE, objects[0], 64) != 64)
		sim_fail("no memory");
	give_of_each(slabs, objects, 0);
	took_it_once("a give to full slabs");
	give_of_each(slabs, objects, 1);
	/* All of two slabs, and a part of the third one. */
	locked = 0;
	if (slab_take(slabs, 0, SLAB_THIS_NODE, taken, 5) != 5)
		sim_fail("objects are missing");
	took_it_once("taking five objects of three slabs");
	slab_give(slabs, taken, 5, "test");
	give_of_each(slabs, objects, 2);
	give_of_each(slabs, objects, 3);
	took_it_once("a give that empties slabs");
}

static int at_once(void *unused)
{
	struct cache *c = &caches_used[0];

	(void)unused;
	sim_start(&now.config);
	make(c, "at once");
	sim_run(1, use_at_once, c->slabs);
	if (quiet_slabs(c->slabs) || slab_shrink(c->slabs))
		sim_fail("an object is missing");
	return 0;
}

/* --- another node's lock is held: no fibre waits for it --- */

static unsigned int held, done;

static void *remote[4]; /* two slabs of node 1; the first has a free object */

static void hold(struct slab_cache *slabs)
{
	os_lock(&slabs->nodes[1]->lock);
	os_store_relaxed(&held, 1);
	while (!os_load_relaxed(&done))
		;
	os_unlock(&slabs->nodes[1]->lock);
}

static void work_beside(struct slab_cache *slabs)
{
	void *object;

	while (!os_load_relaxed(&held))
		;
	if (slab_take(slabs, 0, SLAB_PREFER_NODE, &object, 1) != 1 || page_node(object) != 0)
		sim_fail("no object of a new slab");
	slab_give(slabs, &object, 1, "test");
	if (slab_take_try(slabs, 1, &object))
		sim_fail("an object of a node whose lock another fibre has");
	slab_give_nolock(slabs, remote[2], "test");
	if (!slab_has_deferred(slabs))
		sim_fail("a slab is listed without its node's lock");
	os_store_relaxed(&done, 1);
}

static void hold_or_work(unsigned int fibre, void *slabs)
{
	fibre ? work_beside(slabs) : hold(slabs);
}

static int beside(void *unused)
{
	struct cache *c = &caches_used[0];

	(void)unused;
	sim_start(&now.config);
	make(c, "beside");
	slab_take(c->slabs, 1, SLAB_THIS_NODE, remote, 4);
	slab_give(c->slabs, remote, 1, "test");
	sim_run(2, hold_or_work, c->slabs);
	slab_list_deferred(c->slabs);
	slab_give(c->slabs, remote + 1, 1, "test");
	slab_give(c->slabs, remote + 3, 1, "test");
	if (quiet_slabs(c->slabs) || slab_shrink(c->slabs))
		sim_fail("an object is missing");
	return 0;
}

static const struct run run_beside = {
	.size = 2048,
	.config =
		{
			.cpus = 2,
			.nodes = 2,
			.backend = OS_BACKEND_RSEQ,
			.options = "slab_max_order=0",
			.switching = SIM_ALWAYS / 4,
			.silent = true,
			.max_steps = 100000,
		},
};

int main(int argc, char **argv)
{
	uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : QUICK_SEEDS, seed, hash;
	int failed;

	now = run_beside;
	failed = sim_in_child(beside, NULL, &hash) != 0;
	now.size = 1024; /* 4 objects a slab */
	failed += sim_in_child(at_once, NULL, &hash) != 0;
	for (seed = 1; seed <= seeds && failed < MOST_FAILED; seed++) {
		now = run_of_seed(seed);
		if (sim_in_child(run, NULL, &hash)) {
			fprintf(stderr, "seed %llu failed\n", (unsigned long long)seed);
			failed++;
		}
	}
	printf("%llu seeds, %d failed\n", (unsigned long long)seed - 1, failed);
	return failed != 0;
}
