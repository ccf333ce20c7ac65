/* SPDX-License-Identifier: MIT */
/*
 * A signal handler that retires objects, at each step of a call: ordinary calls that retire,
 * barriers, callbacks, and calls that look for objects. Nothing that a reader may see changes or is
 * allocated, and everything is free after a barrier.
 */
#include "os/machine.h"
#include "sim/kit/model.h"
#include "sim/kit/readers.h"
#include "sim/sim.h"
#include <sheaf/rcu.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>

#define QUIET "rcu_delay=1;rcu_stall=3600000;decay=3600000"

enum {
	CAPACITY = 4,
	OBJECTS = 2 * CAPACITY + 1,
	HANDLED = 4, /* two of each cache */
	BYTES = 64,
	NEAR = 0, /* a CPU of node 0 */
	FAR = 2,  /* and, with two nodes, of node 1 */
};

static struct kmem_cache *caches_of_test[2];
static void *objects[OBJECTS], *handled[HANDLED];

/* --- the handler ------------------------------------------------------------------------------ */

static bool armed, inside;
static unsigned int left; /* steps */

static void handle(void)
{
	for (unsigned int i = 0; i < HANDLED; i++) {
		struct kmem_cache *s = caches_of_test[i % 2];
		uint64_t which = model_retire(s, handled[i], true);

		if (i < 2 || kmem_cache_free_rcu_nolock(s, handled[i]))
			__kfree_rcu_nolock(handled[i], 0);
		model_was_retired(handled[i], which);
	}
}

static unsigned int decide(unsigned int fibre)
{
	if (fibre == SIM_NOBODY || !armed || inside || left-- > 0)
		return 0;
	armed = false;
	inside = true;
	sim_interrupt(handle);
	inside = false;
	return 0;
}

/* --- what it interrupts ----------------------------------------------------------------------- */

static void *take(struct kmem_cache *s)
{
	void *object = kmem_cache_alloc(s, GFP_KERNEL);

	if (!object)
		sim_fail("no memory");
	model_add(s, object, 0);
	return object;
}

static void retire(unsigned int n, bool by_head)
{
	for (unsigned int i = 0; i < n; i++) {
		struct kmem_cache *s = caches_of_test[i % 4 == 3];
		uint64_t which = model_retire(s, objects[i], by_head);

		if (by_head)
			__kvfree_rcu(objects[i], 0);
		else
			kmem_cache_free_rcu(s, objects[i]);
		model_was_retired(objects[i], which);
	}
}

static void retire_many(void)
{
	retire(OBJECTS, false);
}

static void retire_by_head(void)
{
	retire(OBJECTS, true);
}

static void give_back(void)
{
	for (unsigned int i = 0; i < OBJECTS; i++) {
		struct kmem_cache *s = caches_of_test[i % 4 == 3];

		model_remove(s, objects[i]);
		kmem_cache_free(s, objects[i]);
	}
}

static void give_and_take(void)
{
	give_back();
	for (unsigned int i = 0; i < OBJECTS; i++)
		objects[i] = take(caches_of_test[i % 4 == 3]);
	give_back();
}

static void retire_nolock(void)
{
	for (unsigned int i = 0; i < OBJECTS; i++) {
		struct kmem_cache *s = caches_of_test[i % 4 == 3];
		uint64_t which = model_retire(s, objects[i], true);

		if (i % 2 || kmem_cache_free_rcu_nolock(s, objects[i]))
			__kfree_rcu_nolock(objects[i], 0);
		model_was_retired(objects[i], which);
	}
}

static void barrier_of_all(void)
{
	uint64_t moment;

	retire(OBJECTS, true);
	moment = model_moment();
	kvfree_rcu_barrier();
	model_has_passed(NULL, moment);
}

static void barrier_of_one(void)
{
	uint64_t moment;

	retire(OBJECTS, false);
	moment = model_moment();
	kvfree_rcu_barrier_on_cache(caches_of_test[1]);
	model_has_passed(caches_of_test[1], moment);
}

static void callbacks(void)
{
	retire(OBJECTS, true);
	for (int i = 0; i < 4; i++)
		readers_pass();
}

static void shrink(void)
{
	retire(OBJECTS, false);
	kmem_cache_shrink(caches_of_test[0]);
	kmem_cache_shrink(caches_of_test[1]);
}

static const struct {
	const char *name;
	void (*call)(void);
	bool reads; /* as a reader */
} calls[] = {
	{"kmem_cache_free_rcu", retire_many, true},
	{"kfree_rcu", retire_by_head, true},
	{"frees and allocations", give_and_take, true},
	{"nolock calls", retire_nolock, true},
	{"kvfree_rcu_barrier", barrier_of_all, false},
	{"kvfree_rcu_barrier_on_cache", barrier_of_one, false},
	{"callbacks", callbacks, false},
	{"kmem_cache_shrink", shrink, false},
};

static uint64_t in_use(struct kmem_cache *s)
{
	struct kmem_cache_stats stats;

	if (kmem_cache_stats(s, &stats))
		sim_fail("no statistics");
	return stats.objects_in_use;
}

static void check_all_free(const char *name)
{
	uint64_t moment = model_moment();

	kvfree_rcu_barrier();
	model_has_passed(NULL, moment);
	model_all_freed();
	for (unsigned int i = 0; i < 2; i++) {
		struct kmem_cache *s = caches_of_test[i];

		if (in_use(s))
			sim_fail("%s, interrupted: %llu objects of %s are left", name,
				 (unsigned long long)in_use(s), i ? "bare" : "sheaves");
		if (kmem_cache_verify(s))
			sim_fail("%s, interrupted: kmem_cache_verify() found faults", name);
	}
}

/* Interrupt the call after so many steps; false: it has no more. */
static bool interrupt_after(unsigned int call, unsigned int steps)
{
	bool interrupted;

	/* The handler retires objects of either node. */
	sim_go_to(steps % 2 ? FAR : NEAR);
	for (unsigned int i = 0; i < HANDLED; i++)
		handled[i] = take(caches_of_test[i % 2]);
	sim_go_to(NEAR);
	for (unsigned int i = 0; i < OBJECTS; i++)
		objects[i] = take(caches_of_test[i % 4 == 3]);
	left = steps;
	armed = true;
	if (calls[call].reads)
		readers_enter(0);
	calls[call].call();
	interrupted = !armed;
	armed = false;
	if (!interrupted)
		handle();
	if (calls[call].reads)
		readers_leave(0);
	check_all_free(calls[call].name);
	return interrupted;
}

static void interrupt_all(unsigned int fibre, void *unused)
{
	(void)fibre, (void)unused;
	for (unsigned int call = 0; call < sizeof(calls) / sizeof(calls[0]); call++) {
		unsigned int steps = 0;

		while (interrupt_after(call, steps))
			steps++;
		if (steps < OBJECTS)
			sim_fail("%s has only %u steps", calls[call].name, steps);
	}
}

static int run(void *data)
{
	sim_start(data);
	readers_register();
	caches_of_test[0] = kmem_cache_create("sheaves", BYTES, NULL, SLAB_NO_MERGE);
	caches_of_test[1] = kmem_cache_create("bare", BYTES, NULL, SLAB_NO_MERGE | SLAB_NO_SHEAVES);
	if (!caches_of_test[0] || !caches_of_test[1])
		sim_fail("no memory");
	kmem_cache_set_sheaf_capacity(caches_of_test[0], CAPACITY);
	sim_run(1, interrupt_all, NULL);
	for (unsigned int i = 0; i < 2; i++)
		kmem_cache_destroy(caches_of_test[i]);
	return 0;
}

int main(void)
{
	uint64_t hash;

	for (unsigned int nodes = 1; nodes <= 2; nodes++)
		for (unsigned int backend = OS_BACKEND_TRYLOCK; backend <= OS_BACKEND_RSEQ;
		     backend++) {
			struct sim_config config = {
				.seed = 1,
				.cpus = 4,
				.nodes = nodes,
				.backend = backend,
				.options = nodes == 1 ? QUIET : "hardened;" QUIET,
				.silent = true,
				.max_steps = UINT64_C(1) << 32,
				.decide = decide,
			};

			if (sim_in_child(run, &config, &hash))
				return 1;
		}
	return 0;
}
