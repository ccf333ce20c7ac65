/* SPDX-License-Identifier: MIT */
/*
 * Races that the kernel's allocator has lost (docs/upstream.md), shown absent here. In each, a
 * thread pauses before each step of one call in turn, and meanwhile another one makes a whole call;
 * or the first one loses its CPU there. At the end every object is in exactly one place, nothing
 * that was retired before a barrier waits after it, and when all are freed, no slab is left.
 *
 *   flush and harvest   rcu sheaves are flushed while the row of a CPU that left is emptied
 *   flush and leave     the thread that flushes them, or fills them, is moved off its CPU
 *   part and free       a thread returns the part of a slab that it took and does not need, while
 *                       another one frees an object of this slab
 *   call and handler    on a machine with one CPU, a signal handler makes nolock calls: it must end
 *                       before the interrupted call goes on
 */
#include <stdio.h>
#include <string.h>

#include "cache/cache.h"
#include "cache/housekeeping.h"
#include "os/machine.h"
#include "percpu/rows.h"
#include "sim/kit/model.h"
#include "sim/kit/quiet.h"
#include "sim/kit/readers.h"
#include "sim/sim.h"
#include "sim/state.h"
#include <sheaf/kmalloc.h>
#include <sheaf/rcu.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>

enum {
	PAUSES,
	OTHER,
	FIBRES,
	CAPACITY = 3,
	OBJECTS = 8, /* in a slab of a page; each thread has twice as many at the start */
	MANY = 5,
	SIZE = 4096 / OBJECTS,
	SMALL = 32, /* two words of bits for a slab, of which one is taken at the start */
	WORD = 64,
	LATER = 1000 /* ms: all rows are idle */
};

static struct kmem_cache *s;
static unsigned int now_ms = 1000, found; /* how often the state was what a race is about */
static unsigned int begun, retired;	  /* calls of kfree_rcu, and those that have returned */
static struct own {
	void *objects[2 * WORD];
	unsigned int n;
} own[FIBRES];

uint32_t __wrap_os_now_ms(void);

uint32_t __wrap_os_now_ms(void)
{
	return now_ms;
}

/* --- the calls -------------------------------------------------------------------------------- */

static void keep(struct own *mine, void *object)
{
	if (!object)
		sim_fail("no memory");
	model_add(s, object, s->sheaf.slab.ctor ? sizeof(uint64_t) : 0);
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

/* One more than a sheaf has: a full one is queued. */
static void retire(struct own *mine)
{
	for (unsigned int i = 0; i <= CAPACITY; i++) {
		void *object = mine->objects[--mine->n];
		uint64_t which = model_retire(s, object, false);

		begun++;
		kmem_cache_free_rcu(s, object);
		model_was_retired(object, which);
		retired++;
	}
}

static void flush_retired(struct own *mine)
{
	uint64_t now = model_moment();

	(void)mine;
	kvfree_rcu_barrier_on_cache(s);
	model_has_passed(s, now);
}

/* Of those that were retired before, none waits, wherever a paused thread has it. (That thread has
 * no free objects in hand, which would count as in use: prepare() empties its spare.) */
static void flush_all_retired(struct own *mine)
{
	unsigned int before = retired;
	struct kmem_cache_stats stats;
	uint64_t most;

	flush_retired(mine);
	kmem_cache_stats(s, &stats);
	most = own[PAUSES].n + own[OTHER].n + (begun - before);
	found += begun > before;
	if (stats.objects_in_use + stats.rcu_pending_objects > most)
		sim_fail("%llu objects are not free after a barrier, more than %llu",
			 (unsigned long long)(stats.objects_in_use + stats.rcu_pending_objects),
			 (unsigned long long)most);
}

static void shrink(struct own *mine)
{
	(void)mine;
	kmem_cache_shrink(s);
}

static void prefill(struct own *mine)
{
	struct slab_sheaf *sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, CAPACITY);

	if (!sheaf)
		sim_fail("no memory");
	keep(mine, kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, sheaf));
	kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
}

/* A slab's second word is constructed by the call that takes the first object of it: it takes all
 * of them, and puts those back that it does not need. */
static bool takes_words(void)
{
	return s->flags & SLAB_NO_SHEAVES && s->sheaf.slab.ctor;
}

static bool row_is_empty(unsigned int row)
{
	const struct slot *slot = slot_of_row(s->sheaf.at.handle, row);

	return slot->main == &sheaf_bootstrap && slot->pair == (uintptr_t)&sheaf_bootstrap;
}

/* All that housekeeping does for the row of CPU 1, on which no thread runs any more. */
static void harvest(struct own *mine)
{
	bool had = !row_is_empty(1);

	(void)mine;
	now_ms += LATER;
	for (int i = 0; i < 4; i++)
		passes_go_on(now_ms);
	found += had && row_is_empty(1);
}

/* What a signal handler may do. */
static void handle(struct own *mine)
{
	void *object = kmem_cache_alloc_nolock(s, 0),
	     *block = kmalloc_nolock(SIZE, 0, NUMA_NO_NODE);

	found += object != NULL;
	if (object)
		keep(mine, object);
	kmem_cache_free_nolock(s, one_of(mine));
	if (block)
		kfree_nolock(block);
}

/* --- the races -------------------------------------------------------------------------------- */

static const struct race {
	const char *name;
	unsigned int cpus, first_cpu, second_cpu;
	slab_flags_t flags;
	bool ctor, leaves, handler; /* the first thread leaves its CPU; the second is a handler */
	void (*first)(struct own *mine);
	void (*second)(struct own *mine);
} races[] = {
	{"a flush, and a harvest", 2, 0, 0, 0, false, false, false, flush_retired, harvest},
	{"a harvest, and a flush", 2, 0, 0, 0, false, false, false, harvest, flush_retired},
	{"a retire, and a harvest", 2, 1, 0, 0, false, false, false, retire, harvest},
	{"a flush that leaves its CPU", 2, 1, 0, 0, false, true, false, flush_retired, retire},
	{"a flush and a harvest that leave it", 2, 1, 0, 0, false, true, false, flush_retired,
	 harvest},
	{"a retire, and a flush", 2, 1, 0, 0, false, false, false, retire, flush_all_retired},
	{"a retire that leaves its CPU", 2, 1, 0, 0, false, true, false, retire, flush_all_retired},
	{"a part, and a free", 2, 0, 1, SLAB_NO_SHEAVES, true, false, false, allocate, release},
	{"a free, and a part", 2, 0, 1, SLAB_NO_SHEAVES, true, false, false, release, allocate},
	{"parts, and frees", 2, 0, 1, SLAB_NO_SHEAVES, false, false, false, allocate_many,
	 release_many},
	{"frees, and parts", 2, 0, 1, SLAB_NO_SHEAVES, false, false, false, release_many,
	 allocate_many},
	{"frees, and frees", 2, 0, 1, SLAB_NO_SHEAVES, false, false, false, release_many,
	 release_many},
	{"a refill, and frees", 2, 0, 1, 0, true, false, false, allocate_many, release_many},
	{"alloc, and a handler", 1, 0, 0, 0, false, false, true, allocate, handle},
	{"free, and a handler", 1, 0, 0, 0, false, false, true, release, handle},
	{"alloc_bulk, and a handler", 1, 0, 0, 0, false, false, true, allocate_many, handle},
	{"free_bulk, and a handler", 1, 0, 0, 0, false, false, true, release_many, handle},
	{"free_rcu, and a handler", 1, 0, 0, 0, false, false, true, retire, handle},
	{"a barrier, and a handler", 1, 0, 0, 0, false, false, true, flush_retired, handle},
	{"prefill, and a handler", 1, 0, 0, 0, false, false, true, prefill, handle},
	{"shrink, and a handler", 1, 0, 0, 0, false, false, true, shrink, handle},
	{"a slab's object, and a handler", 1, 0, 0, SLAB_NO_SHEAVES, true, false, true, allocate,
	 handle},
	{"a slab's free, and a handler", 1, 0, 0, SLAB_NO_SHEAVES, true, false, true, release_many,
	 handle},
};

static const struct race *race;
static unsigned int paused_before, steps;
static bool runs, paused, ended[FIBRES];

/* The thread that pauses goes on. */
static unsigned int go_on(void)
{
	if (race->leaves && sim.fibres[PAUSES].cpu) {
		sim_abort_section(&sim.fibres[PAUSES]);
		sim.fibres[PAUSES].cpu = 0;
	}
	return PAUSES;
}

static unsigned int decide(unsigned int fibre)
{
	if (!runs)
		return 0;
	if (fibre == PAUSES && !paused && ++steps == paused_before) {
		paused = true;
		return OTHER;
	}
	if (fibre != SIM_NOBODY)
		return fibre;
	/* At the start; or one of the two has ended, or waits. */
	if (race->handler && paused && !ended[OTHER])
		sim_fail("the handler waits for the call that it interrupted");
	return !steps || ended[OTHER] || (paused && !ended[PAUSES]) ? go_on() : OTHER;
}

static void call(unsigned int fibre, void *unused)
{
	(void)unused;
	sim_go_to(fibre ? race->second_cpu : race->first_cpu);
	(fibre ? race->second : race->first)(&own[fibre]);
	ended[fibre] = true;
}

/* Each thread has objects of each slab. Sheaves of CPU 1, or of the only one, have free and retired
 * objects. */
static void prepare(void)
{
	sim_go_to(race->cpus - 1);
	for (unsigned int i = 0; i < (takes_words() ? WORD : 4 * OBJECTS); i++)
		allocate(&own[i % FIBRES]);
	for (unsigned int i = 0; !takes_words() && i < CAPACITY + 2; i++)
		release(&own[i % FIBRES]);
	if (race->second == flush_all_retired)
		kmem_cache_shrink(s);
	if (!(race->flags & SLAB_NO_SHEAVES)) {
		retire(&own[OTHER]);
		if (!sheaf_size(slot_of_row(s->sheaf.at.handle, race->cpus - 1)->rcu_free))
			sim_fail("no sheaf of CPU %u has retired objects", race->cpus - 1);
	}
	sim_go_to(0);
}

static void clean(void)
{
	sim_go_to(0);
	for (unsigned int fibre = 0; fibre < FIBRES; fibre++)
		while (own[fibre].n)
			release(&own[fibre]);
	kvfree_rcu_barrier_on_cache(s);
	model_all_freed();
	if (kmem_cache_shrink(s))
		sim_fail("slabs remain when all objects were freed");
	quiet_slabs(&s->sheaf.slab);
}

/* Pause before this step; returns false if the call has fewer. */
static bool pause_once(unsigned int step)
{
	prepare();
	paused_before = step;
	steps = 0;
	paused = ended[PAUSES] = ended[OTHER] = false;
	runs = true;
	sim_run(FIBRES, call, NULL);
	runs = false;
	sim_go_to(0);
	quiet_marks(&s->sheaf);
	if (kmem_cache_verify(s))
		sim_fail("a fault");
	clean();
	return paused;
}

static int pause_everywhere(void *config)
{
	struct kmem_cache_args args = {.ctor = race->ctor ? model_constructor : NULL};
	unsigned int step = 1;

	sim_start(config);
	readers_register();
	s = kmem_cache_create("raced", race->ctor ? SMALL : SIZE, &args,
			      SLAB_NO_MERGE | race->flags);
	if (!s || (!race->flags && kmem_cache_set_sheaf_capacity(s, CAPACITY)))
		sim_fail("no cache");
	/* The caches of kmalloc are made by ordinary calls. */
	kfree(kmalloc(SIZE, GFP_KERNEL));
	while (pause_once(step))
		step++;
	printf("%s: %u steps, found %u\n", race->name, step - 1, found);
	if ((race->first == harvest || race->second == harvest || race->handler ||
	     race->second == flush_all_retired) &&
	    !found)
		sim_fail("the race never took place");
	return 0;
}

int main(void)
{
	struct sim_config config = {.seed = 1,
				    .nodes = 1,
				    .options = "slab_max_order=0",
				    .silent = true,
				    .decide = decide,
				    .max_steps = UINT64_MAX};
	uint64_t hash;
	int failed = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (race = races; race < races + sizeof(races) / sizeof(races[0]); race++) {
		config.cpus = race->cpus;
		for (int i = 0; i < 2; i++) {
			config.backend = i ? OS_BACKEND_TRYLOCK : OS_BACKEND_RSEQ;
			if (sim_in_child(pause_everywhere, &config, &hash)) {
				fprintf(stderr, "failed: %s\n", race->name);
				failed++;
			}
		}
	}
	return failed != 0;
}
