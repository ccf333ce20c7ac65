/* SPDX-License-Identifier: MIT */
/*
 * Every pause: a thread pauses in a call, before each of its steps in turn, while another thread
 * makes a whole call on another CPU, or on the same one. This is done for pairs of calls, with
 * sheaves that are half full and full. If the second call drains, the first one also begins,
 * or continues, in the middle of it. So the test finds what chance hardly ever does: a section that
 * ends only when a drain has already emptied its sheaf.
 *
 *   pauses [--all]    also pairs in which no call reaches other CPUs' sheaves, half full ones, and
 *                     forks in each of the settings
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cache/cache.h"
#include "percpu/drain.h"
#include "percpu/idle.h"
#include "sim/kit/model.h"
#include "sim/kit/quiet.h"
#include "sim/kit/readers.h"
#include "sim/sim.h"
#include <sheaf/rcu.h>
#include <sheaf/slab.h>

enum {
	PAUSES,
	OTHER,
	FIBRES,
	CAPACITY = 2,
	OBJECTS = 6, /* of each fibre */
	MANY = 5,    /* more than two sheaves have */
	/* Objects that are free before the calls: half of what sheaves hold, and all. */
	HALF = 3,
	FULL = 6
};

static struct kmem_cache *s;
static unsigned int least_freed, most_freed; /* HALF, FULL or both */
static bool unreached;			     /* the system refuses membarrier */
static struct own {
	void *objects[4 * OBJECTS];
	unsigned int n;
} own[FIBRES];

/* --- the calls --- */

static void keep(struct own *mine, void *object)
{
	if (!object)
		sim_fail("no memory");
	model_add(s, object, 0);
	mine->objects[mine->n++] = object;
}

static void *one_of(struct own *mine)
{
	void *object = mine->objects[--mine->n];

	model_remove(s, object);
	return object;
}

static void allocate(struct own *mine)
{
	keep(mine, kmem_cache_alloc(s, GFP_KERNEL));
}

static void release(struct own *mine)
{
	kmem_cache_free(s, one_of(mine));
}

static void allocate_many(struct own *mine)
{
	void *objects[MANY];

	if (kmem_cache_alloc_bulk(s, GFP_KERNEL, MANY, objects) != MANY)
		sim_fail("no memory");
	for (unsigned int i = 0; i < MANY; i++)
		keep(mine, objects[i]);
}

static void release_many(struct own *mine)
{
	void *objects[MANY];

	for (unsigned int i = 0; i < MANY; i++)
		objects[i] = one_of(mine);
	kmem_cache_free_bulk(s, MANY, objects);
}

static void nolock(struct own *mine)
{
	void *object;

	kmem_cache_free_nolock(s, one_of(mine));
	object = kmem_cache_alloc_nolock(s, 0);
	if (object)
		keep(mine, object);
}

static void retire(struct own *mine)
{
	for (unsigned int i = 0; i <= CAPACITY; i++) {
		void *object = mine->objects[--mine->n];
		uint64_t which = model_retire(s, object, false);

		kmem_cache_free_rcu(s, object);
		model_was_retired(object, which);
	}
}

static void barrier(struct own *mine)
{
	uint64_t now = model_moment();

	(void)mine;
	/* It would report that it does not wait. */
	if (unreached)
		return;
	kvfree_rcu_barrier_on_cache(s);
	model_has_passed(s, now);
}

static void prefill(struct own *mine)
{
	struct slab_sheaf *sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, CAPACITY);

	if (!sheaf)
		sim_fail("no memory");
	keep(mine, kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, sheaf));
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
}

static void shrink(struct own *mine)
{
	(void)mine;
	kmem_cache_shrink(s);
}

static void resize(struct own *mine)
{
	(void)mine;
	kmem_cache_set_sheaf_capacity(s, CAPACITY + 1);
}

/* Twice: the first time marks what the second one takes. */
static void age(struct own *mine)
{
	(void)mine;
	os_lock(&sheaf_drains);
	for (int i = 0; i < 2; i++)
		idle_age(&s->sheaf, UINT_MAX);
	os_unlock(&sheaf_drains);
}

static int in_child(void *mine)
{
	quiet_marks(&s->sheaf);
	release(mine);
	allocate(mine);
	quiet_marks(&s->sheaf);
	return 0;
}

static void fork_once(struct own *mine)
{
	if (sim_fork(in_child, mine))
		sim_fail("the child failed");
}

static const struct call {
	const char *name;
	void (*run)(struct own *mine);
} calls[] = {{"alloc", allocate},
	     {"free", release},
	     {"alloc_bulk", allocate_many},
	     {"free_bulk", release_many},
	     {"nolock", nolock},
	     {"free_rcu", retire},
	     {"prefill", prefill},
	     {"shrink", shrink},
	     {"barrier", barrier},
	     {"set_sheaf_capacity", resize},
	     {"idle_age", age},
	     {"fork", fork_once}};

enum {
	CALLS = sizeof(calls) / sizeof(calls[0]),
	REACHES = 7 /* the first one that reaches other CPUs' sheaves */
};

/* --- the schedule --- */

/* PAUSES begins before OTHER, and continues after its end; or, if OTHER drains, it begins just
 * before OTHER takes sheaves from the slots, or continues just after it took those of CPU 0. */
enum moment {
	WHOLE,
	BEGINS_BEFORE_TAKING,
	CONTINUES_AFTER_TAKING,
	MOMENTS
};

static enum moment moment;
static unsigned int nr_calls = CALLS;	  /* of the second calls */
static unsigned int paused_before, steps; /* of PAUSES */
static bool runs, paused, takes, has_taken, ended[FIBRES], same_cpu;
static const struct call *first, *second;

static unsigned int decide(unsigned int fibre)
{
	static unsigned int next;

	if (!runs)
		return 0;
	if (fibre == PAUSES && !paused && ++steps == paused_before) {
		paused = true;
		return next = ended[OTHER] ? PAUSES : OTHER;
	}
	if (fibre == OTHER && !ended[PAUSES] &&
	    (moment == BEGINS_BEFORE_TAKING ? takes && !steps
					    : moment == CONTINUES_AFTER_TAKING && has_taken)) {
		has_taken = false;
		return next = PAUSES;
	}
	if (fibre != SIM_NOBODY)
		return fibre;
	if (!steps && moment != BEGINS_BEFORE_TAKING)
		return next = PAUSES;
	/* At the start; or one of them has ended, or waits. */
	return next = next == OTHER || ended[OTHER] ? PAUSES : OTHER;
}

void __real_taken_take(struct slot *slot, unsigned int row, struct sheaf **list, bool retired);
void __wrap_taken_take(struct slot *slot, unsigned int row, struct sheaf **list, bool retired);

void __wrap_taken_take(struct slot *slot, unsigned int row, struct sheaf **list, bool retired)
{
	takes = true;
	__real_taken_take(slot, row, list, retired);
	has_taken = row == 0;
}

static void call(unsigned int fibre, void *unused)
{
	(void)unused;
	sim_go_to(same_cpu ? 0 : fibre);
	(fibre == PAUSES ? first : second)->run(&own[fibre]);
	ended[fibre] = true;
}

/* Each fibre has objects of both CPUs; this many are free in the first CPU's sheaves. No fibre runs
 * here and in clean(): then the simulator makes no steps. */
static void prepare(unsigned int freed)
{
	for (unsigned int i = 0; i < 2 * OBJECTS; i++) {
		sim_go_to(i / 2 % 2);
		allocate(&own[i % 2]);
	}
	sim_go_to(0);
	kmem_cache_shrink(s);
	for (unsigned int i = 0; i < freed; i++) {
		allocate(&own[PAUSES]);
		allocate(&own[OTHER]);
	}
	for (unsigned int i = 0; i < freed; i++)
		release(&own[i % 2]);
}

static void clean(void)
{
	sim_go_to(0);
	for (unsigned int fibre = 0; fibre < FIBRES; fibre++)
		while (own[fibre].n)
			release(&own[fibre]);
	kvfree_rcu_barrier_on_cache(s);
	model_all_freed();
	kmem_cache_set_sheaf_capacity(s, CAPACITY);
	if (kmem_cache_shrink(s))
		sim_fail("slabs remain when all objects were freed");
}

/* Pause before this step; returns false if the call has fewer. */
static bool pause_once(unsigned int step, unsigned int freed)
{
	prepare(freed);
	paused_before = step;
	steps = 0;
	paused = takes = has_taken = ended[PAUSES] = ended[OTHER] = false;
	runs = true;
	sim_faults(true);
	sim_run(FIBRES, call, NULL);
	sim_faults(false);
	runs = false;
	quiet_marks(&s->sheaf);
	if (kmem_cache_verify(s))
		sim_fail("a fault");
	clean();
	return paused;
}

static int pause_everywhere(void *config)
{
	bool forks = second->run == fork_once,
	     drains = second->run == shrink || second->run == barrier;

	sim_start(config);
	readers_register();
	s = kmem_cache_create("paused", 64, NULL, SLAB_NO_MERGE);
	if (!s || kmem_cache_set_sheaf_capacity(s, CAPACITY))
		sim_fail("no cache");
	/* A fork costs as much as a hundred other calls. */
	for (unsigned int freed = least_freed; freed <= (forks ? HALF : most_freed); freed += HALF)
		for (moment = WHOLE; moment < (drains ? MOMENTS : 1); moment++)
			for (unsigned int step = 1; pause_once(step, freed); step++)
				;
	return 0;
}

/* Returns false after the first pair that fails. The second call is one from `least` on; the last
 * three do not pause. With half-full sheaves, full ones, or both: a fork with the former. */
static bool all_pairs(struct sim_config *config, unsigned int least, unsigned int half,
		      unsigned int full)
{
	uint64_t hash;

	least_freed = half;
	most_freed = full;
	for (first = calls; first->run != resize; first++)
		for (second = calls + least; second < calls + nr_calls; second++)
			if (sim_in_child(pause_everywhere, config, &hash)) {
				fprintf(stderr, "%s paused in %s, on %s CPU\n", first->name,
					second->name, same_cpu ? "the same" : "another");
				return false;
			}
	return true;
}

int main(int argc, char **argv)
{
	bool all = argc > 1 && !strcmp(argv[1], "--all");
	struct sim_config other = {.seed = 1,
				   .cpus = 2,
				   .nodes = 1,
				   .backend = OS_BACKEND_RSEQ,
				   .options = "slab_max_order=0",
				   .silent = true,
				   .decide = decide,
				   .max_steps = UINT64_MAX},
			  nodes = other, trylock = other, refused = other;

	nodes.nodes = 2;
	trylock.backend = OS_BACKEND_TRYLOCK;
	refused.membarrier_refused = SIM_ALWAYS;
	if (!all_pairs(&other, all ? 0 : REACHES, all ? HALF : FULL, FULL))
		return 1;
	nr_calls -= !all; /* without fork_once() */
	if ((all && !all_pairs(&nodes, REACHES, FULL, FULL)) ||
	    !all_pairs(&trylock, REACHES, HALF, HALF))
		return 1;
	unreached = true;
	if (!all_pairs(&refused, REACHES, FULL, FULL))
		return 1;
	unreached = false;
	same_cpu = true;
	return !all_pairs(&nodes, REACHES, FULL, FULL);
}
