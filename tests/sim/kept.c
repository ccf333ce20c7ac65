/* SPDX-License-Identifier: MIT */
/*
 * Runs that CPUs keep (src/page/kept.c): a trim when all is quiet finds each of them, in whatever
 * order CPUs stored and took them beside earlier trims; so does one in a forked child, wherever the
 * other threads were; and its steps depend on the CPUs that have stored some, not on those that
 * there are.
 */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/machine.h"
#include "page/page.h"
#include "sim/sim.h"
#include "sim/state.h"
#include <sheaf/slab.h>

enum {
	SEEDS = 400,
	FIBRES = 4,
	ROUNDS = 12,
	ORDERS = 3,
	CPUS = 384,
	LATEST = 200,	  /* most steps before a fork, and before the first run is stored */
	MOST_STEPS = 250, /* with runs of one CPU: 81 cells of it, and a free */
};

static void use(unsigned int fibre, void *unused)
{
	(void)unused;
	for (unsigned int i = 0; i < ROUNDS; i++) {
		unsigned int order = sim_below(ORDERS);
		struct slab *run;

		if (fibre == 0) {
			page_free_kept();
			continue;
		}
		run = page_take_kept(os_node(), order);
		if (!run)
			run = page_alloc(os_node(), order);
		if (!run)
			sim_fail("no memory");
		page_keep(run, order);
	}
}

static int run(void *data)
{
	size_t before;

	sim_start(data);
	if (!kmem_cache_create("first-use", 64, NULL, 0))
		sim_fail("no memory");
	before = page_usage().used;
	sim_run(FIBRES, use, NULL);
	page_free_kept();
	if (page_usage().used != before)
		sim_fail("%zu bytes are kept after a trim", page_usage().used - before);
	return 0;
}

void __real_os_after_fork(void);
void __wrap_os_after_fork(void);

/* The other fibres are threads that vanished. */
void __wrap_os_after_fork(void)
{
	sim.config.switching = sim.config.migration = 0;
	__real_os_after_fork();
}

static void trim_in_child(void)
{
	page_free_kept();
	for (unsigned int order = 0; order < ORDERS; order++)
		if (page_take_kept(os_node(), order))
			sim_fail("a run is kept after a trim in a forked child");
}

static void fork_beside(unsigned int fibre, void *unused)
{
	pid_t child;
	int status;

	for (unsigned int steps = sim_below(LATEST); steps > 0; steps--)
		os_cpu();
	if (fibre) {
		use(fibre, unused);
		return;
	}
	child = fork();
	if (child == 0) {
		trim_in_child();
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child || status)
		sim_fail("the forked child failed");
}

static int run_forking(void *data)
{
	sim_start(data);
	if (!kmem_cache_create("first-use", 64, NULL, 0))
		sim_fail("no memory");
	sim_run(FIBRES, fork_beside, NULL);
	return 0;
}

static void count_steps(unsigned int fibre, void *unused)
{
	struct slab *run = page_alloc(os_node(), 0);
	size_t used = page_usage().used - OS_PAGE;
	uint64_t before;

	(void)fibre, (void)unused;
	if (!run)
		sim_fail("no memory");
	page_keep(run, 0);
	before = sim_steps();
	page_free_kept();
	printf("a trim of runs kept by one CPU: %u steps\n", (unsigned int)(sim_steps() - before));
	if (sim_steps() - before > MOST_STEPS || page_usage().used != used)
		sim_fail("too many");
	before = sim_steps();
	page_free_kept();
	printf("of none: %u steps\n", (unsigned int)(sim_steps() - before));
	if (sim_steps() - before > (CPUS + 63) / 64)
		sim_fail("too many");
	fflush(stdout);
}

static int count(void *data)
{
	sim_start(data);
	if (!kmem_cache_create("first-use", 64, NULL, 0))
		sim_fail("no memory");
	sim_run(1, count_steps, NULL);
	return 0;
}

int main(void)
{
	struct sim_config config = {.cpus = 3, .nodes = 1, .silent = true, .max_steps = 1 << 24};
	unsigned int failed = 0;
	uint64_t hash;

	for (config.seed = 1; config.seed <= SEEDS; config.seed++) {
		config.switching = SIM_ALWAYS >> config.seed % 7;
		config.migration = SIM_ALWAYS / 16;
		failed += sim_in_child(run, &config, &hash) != 0;
		failed += sim_in_child(run_forking, &config, &hash) != 0;
	}
	config.migration = 0;
	config.cpus = CPUS;
	config.nodes = 4;
	failed += sim_in_child(count, &config, &hash) != 0;
	printf("%d seeds, %u failed\n", SEEDS, failed);
	return failed != 0;
}
