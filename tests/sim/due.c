/* SPDX-License-Identifier: MIT */
/*
 * Callbacks after grace periods, with many caches on 384 CPUs: the rcu_free sheaves of all caches
 * that are due are drained with one pair of membarriers, and a callback does nothing for caches
 * that retire nothing, however many have done so before; nor does a fork lock their queues.
 */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/machine.h"
#include "sim/kit/readers.h"
#include "sim/sim.h"
#include <sheaf/rcu.h>
#include <sheaf/slab.h>

enum {
	CPUS = 384,
	CACHES = 200,
	ROUNDS = 20,
	VISITS = 3,
	FEW = 8,	      /* where each cache alone would take two */
	MOST_STEPS = 250,     /* of a callback with one active cache */
	FORK_STEPS = 50,      /* of the parent, for each cache that has retired objects */
	BARRIER_STEPS = 4000, /* with the callbacks that are in flight */
};

static struct kmem_cache *made[CACHES];
static unsigned int barriers, visits;

bool __real_os_membarrier(void);
bool __wrap_os_membarrier(void);

bool __wrap_os_membarrier(void)
{
	barriers++;
	return __real_os_membarrier();
}

struct grace;
struct grace_user;
typedef void visit_fn(struct grace_user *user, void *data);
void __real_grace_for_each_active(struct grace *grace, visit_fn *visit, void *data);
void __wrap_grace_for_each_active(struct grace *grace, visit_fn *visit, void *data);

/* A callback goes over the active users VISITS times. */
void __wrap_grace_for_each_active(struct grace *grace, visit_fn *visit, void *data)
{
	visits++;
	__real_grace_for_each_active(grace, visit, data);
}

static void retire(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		void *object = kmem_cache_alloc(made[i], GFP_KERNEL);

		if (!object)
			sim_fail("no memory");
		kmem_cache_free_rcu(made[i], object);
	}
}

/* As time passes, all of them are due. */
static void drain_all(void)
{
	unsigned int most = 0, callbacks = 0;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		barriers = visits = 0;
		readers_pass();
		if (barriers > most) {
			most = barriers;
			callbacks = visits / VISITS;
		}
		retire(1);
	}
	printf("%d caches are due: %u membarriers in %u callbacks\n", CACHES, most, callbacks);
	/* Some become due later than others, so more than one callback may drain. */
	if (most > 2 * callbacks || most > FEW || (!most && os.backend == OS_BACKEND_RSEQ))
		sim_fail("%u membarriers in %u callbacks", most, callbacks);
}

static void fork_once(void)
{
	uint64_t before = sim_steps(), steps;
	pid_t child = fork();
	int status;

	if (!child)
		_exit(0);
	steps = (sim_steps() - before) / CACHES;
	if (waitpid(child, &status, 0) != child || status)
		sim_fail("the forked child failed");
	printf("a fork: %u steps for each cache\n", (unsigned int)steps);
	fflush(stdout);
	if (steps > FORK_STEPS)
		sim_fail("too many");
}

static void callbacks(unsigned int fibre, void *unused)
{
	uint64_t before, steps;

	(void)fibre, (void)unused;
	retire(CACHES);
	drain_all();
	kvfree_rcu_barrier();
	/* Nothing waits: the next callback finds that out. */
	retire(1);
	readers_pass();
	before = sim_steps();
	visits = 0;
	readers_pass();
	if (!visits)
		sim_fail("there was no callback");
	steps = (sim_steps() - before) * VISITS / visits;
	printf("a callback when one cache of %d is active: %u steps\n", CACHES,
	       (unsigned int)steps);
	fflush(stdout);
	if (!steps || steps > MOST_STEPS)
		sim_fail("too many");
	fork_once();
	before = sim_steps();
	kvfree_rcu_barrier();
	steps = sim_steps() - before;
	printf("a barrier then: %u steps\n", (unsigned int)steps);
	fflush(stdout);
	if (steps > BARRIER_STEPS)
		sim_fail("too many");
}

static int run(void *data)
{
	char name[32];

	sim_start(data);
	readers_register();
	for (unsigned int i = 0; i < CACHES; i++) {
		snprintf(name, sizeof(name), "cache-%u", i);
		made[i] = kmem_cache_create(name, 64, NULL, SLAB_NO_MERGE);
		if (!made[i])
			sim_fail("cache %u cannot be made", i);
	}
	sim_run(1, callbacks, NULL);
	return 0;
}

int main(void)
{
	struct sim_config config = {.seed = 1,
				    .cpus = CPUS,
				    .nodes = 4,
				    .silent = true,
				    .options = "rcu_delay=1",
				    .max_steps = 1 << 26};
	uint64_t hash;
	int failed = 0;

	for (config.backend = OS_BACKEND_TRYLOCK; config.backend <= OS_BACKEND_RSEQ;
	     config.backend++)
		failed += sim_in_child(run, &config, &hash) != 0;
	return failed != 0;
}
