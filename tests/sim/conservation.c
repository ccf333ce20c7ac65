/* SPDX-License-Identifier: MIT */
/*
 * Conservation (docs/design.md, R5) on simulated machines: each seed gives a machine, its faults, a
 * schedule and a storm of operations. A seed that fails is printed with the command that repeats
 * it.
 *
 *   conservation [--seeds N] [--seed FIRST] [--verbose]
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "fibres.h"
#include "os/machine.h"
#include "os/memory.h"
#include "sim/sim.h"

#define QUICK_SEEDS 400
/* Time passes quickly here: a reader that is preempted for long is not a fault, and idle memory is
 * soon returned. */
#define QUIET	      "rcu_stall=3600000;decay=1000"
#define REPEATED      10 /* seeds that are run twice, to prove that they repeat */
#define MAX_STEPS     (UINT64_C(1) << 26)
#define MEMORY_SCARCE ((size_t)7 << 20)

struct run {
	struct sim_config config;
	struct storm storm;
};

static uint64_t dice_state;

static unsigned int dice(unsigned int n)
{
	uint64_t z = dice_state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (unsigned int)((z >> 33) % n);
}

/* One of the powers of two up to 2^most. */
static unsigned int power(unsigned int most)
{
	return 1u << dice(most + 1);
}

static void faults_of_seed(struct sim_config *config)
{
	config->switching = dice(4) ? SIM_ALWAYS >> dice(8) : 0;
	config->migration = dice(2) ? SIM_ALWAYS >> (2 + dice(6)) : 0;
	config->signal = dice(2) ? SIM_ALWAYS >> (3 + dice(7)) : 0;
	config->stall = dice(2) ? SIM_ALWAYS >> (6 + dice(8)) : 0;
	config->stall_steps = 1u << (4 + dice(10));
	config->no_memory = dice(3) ? 0 : SIM_ALWAYS >> (1 + dice(3));
	config->memory = dice(3) ? 0 : MEMORY_SCARCE;
	config->membarrier_refused = dice(8) ? 0 : SIM_ALWAYS >> dice(3);
	/*
	 * Without switches a fibre stops only when it ends or waits: every storm needs one of them.
	 */
	if (!config->switching && !config->stall)
		config->switching = SIM_ALWAYS >> 10;
}

static void run_of_seed(uint64_t seed, struct run *run)
{
	static const char *const options[] = {QUIET,
					      "slab_max_order=0;" QUIET,
					      "slab_max_order=0;slab_freelist_hardened;" QUIET,
					      "slab_freelist_random;" QUIET,
					      "index=mm_cid;slab_max_order=0;" QUIET,
					      "slab_strict_numa;slab_max_order=0;" QUIET,
					      "slab_nospare;slab_max_order=0;" QUIET,
					      "slab_debug=FZP;slab_max_order=0;" QUIET,
					      "slab_max_order=3;" QUIET};

	dice_state = seed << 32;
	*run = (struct run){.config = {.seed = seed, .silent = true, .max_steps = MAX_STEPS}};
	run->config.cpus = power(dice(8) ? 3 : 7);
	run->config.nodes = power(3);
	if (run->config.nodes > run->config.cpus)
		run->config.nodes = run->config.cpus;
	run->config.backend = dice(3) ? OS_BACKEND_RSEQ : OS_BACKEND_TRYLOCK;
	run->config.options = options[dice(sizeof(options) / sizeof(options[0]))];
	faults_of_seed(&run->config);
	run->storm.fibres = 1 + dice(dice(4) ? 6 : 24);
	run->storm.rounds = 1 + dice(3);
	run->storm.operations = 600 / run->storm.fibres;
	run->storm.few_sheaves = dice(4) != 0;
	run->storm.drains = dice(3) ? power(6) : 0;
	run->storm.all_reached = !run->config.membarrier_refused;
	run->storm.memory_refused = run->config.no_memory || run->config.memory;
	run->storm.retires = dice(2) ? power(7) : 0;
	run->storm.budget = dice(4) ? 0 : 1u << (8 + dice(10));
	run->config.step_ns = 50u << dice(15);
	run->config.page_size = OS_PAGE << 2 * dice(3);
	/* A child has no readers of its own. */
	run->storm.forks = run->storm.retires || dice(4) ? 0 : power(5);
}

static int run_in_child(void *data)
{
	struct run *run = data;

	sim_start(&run->config);
	storm_run(&run->storm);
	return 0;
}

static void print_run(const struct run *run, uint64_t hash)
{
	const struct sim_config *c = &run->config;

	printf("seed %llu: %s, %u CPUs, %u nodes, %u fibres, %u rounds of %u, \"%s\"%s; per 65536: "
	       "switch %u, migrate %u, signal %u, stall %u (%u steps), no memory %u, no membarrier "
	       "%u; memory %zu; hash %016llx\n",
	       (unsigned long long)c->seed, c->backend == OS_BACKEND_RSEQ ? "rseq" : "trylock",
	       c->cpus, c->nodes, run->storm.fibres, run->storm.rounds, run->storm.operations,
	       c->options, run->storm.few_sheaves ? ", few sheaves" : "", c->switching,
	       c->migration, c->signal, c->stall, c->stall_steps, c->no_memory,
	       c->membarrier_refused, c->memory, (unsigned long long)hash);
}

/* True if the seed ran well, and again in the same way if asked. */
static bool run_seed(const char *program, uint64_t seed, bool twice, bool verbose)
{
	struct run run;
	uint64_t hash, again;
	bool good;

	run_of_seed(seed, &run);
	fflush(stdout);
	good = sim_in_child(run_in_child, &run, &hash) == 0;
	if (verbose)
		print_run(&run, hash);
	if (good && twice) {
		/* Assertions do not change a run. */
		run.config.no_assertions = true;
		sim_in_child(run_in_child, &run, &again);
		good = again == hash;
		if (!good)
			printf("seed %llu does not repeat\n", (unsigned long long)seed);
	}
	if (!good)
		printf("FAILED; to repeat: %s --seed %llu --seeds 1 --verbose\n", program,
		       (unsigned long long)seed);
	return good;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"seeds", required_argument, NULL, 'n'},
						{"seed", required_argument, NULL, 's'},
						{"verbose", no_argument, NULL, 'v'},
						{NULL, 0, NULL, 0}};
	uint64_t first = 1, seeds = QUICK_SEEDS, failed = 0;
	bool verbose = false;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'n')
			seeds = strtoull(optarg, NULL, 10);
		else if (option == 's')
			first = strtoull(optarg, NULL, 10);
		else if (option == 'v')
			verbose = true;
		else
			return 2;
	}
	for (uint64_t i = 0; i < seeds; i++)
		failed += !run_seed(argv[0], first + i, i < REPEATED, verbose);
	printf("%llu seeds, %llu failed\n", (unsigned long long)seeds, (unsigned long long)failed);
	return failed != 0;
}
