/* SPDX-License-Identifier: MIT */
/*
 * How many objects pass through slabs when threads prefill sheaves and return them, of constant and
 * of changing sizes: none, once every CPU has what it needs.
 */
#include <stdio.h>

#include "cache/cache.h"
#include "os/machine.h"
#include "percpu/barn/barn.h"
#include "sim/kit/slabs.h"
#include "sim/sim.h"

enum {
	CAPACITY = 60,
	MOST_CPUS = 96,
	PAIRS = 1600, /* of a prefill and a return, by each fibre */
	WARM = 1400,  /* until every CPU has its objects */
	BESIDE = 3,   /* sheaves that a fibre has at the same time */
	RING = 4 * CAPACITY,
};

/* How the threads of a run use their sheaves. */
struct use {
	const char *name;
	unsigned int size; /* 0: another one each time */
	unsigned int beside;
	bool migrates, passes;
};

static struct kmem_cache *s;
static const struct use *use;
static unsigned int nr_fibres, nr_warm;

/* What a fibre allocated and its neighbour frees. */
static struct ring {
	void *objects[RING];
	unsigned int put, taken;
} rings[MOST_CPUS];

static void give(struct ring *ring)
{
	while (ring->taken < ring->put)
		kmem_cache_free(s, ring->objects[ring->taken++ % RING]);
}

static unsigned int below(unsigned int n)
{
	return n ? sim_below(n) : 0;
}

/* Take some of the sheaf's objects, for this fibre to free or its neighbour. */
static void take(struct ring *ring, struct slab_sheaf *sheaf, unsigned int most)
{
	for (unsigned int n = below(most + 1); n && ring->put - ring->taken < RING; n--) {
		void *object = kmem_cache_alloc_from_sheaf(s, GFP_NOWAIT, sheaf);

		if (!object)
			sim_fail("fewer objects than were promised");
		ring->objects[ring->put++ % RING] = object;
	}
}

static void work(unsigned int fibre)
{
	struct slab_sheaf *sheaves[BESIDE];
	struct ring *ring = &rings[fibre];

	for (unsigned int i = 0; i < use->beside; i++) {
		unsigned int size = use->size ? use->size : 1 + sim_below(CAPACITY);

		sheaves[i] = kmem_cache_prefill_sheaf(s, GFP_KERNEL, size);
		if (!sheaves[i] || kmem_cache_sheaf_size(sheaves[i]) < size)
			sim_fail("no memory");
		take(ring, sheaves[i], size);
	}
	/* Objects of other nodes go home in sheaves that are no part of this. */
	if (use->migrates)
		sim_go_to(os_cpu_at(os_node(), sim_below(os.node[os_node()].n)));
	for (unsigned int i = 0; i < use->beside; i++)
		kmem_cache_return_sheaf(s, GFP_KERNEL, sheaves[i]);
	give(use->passes ? &rings[(fibre + 1) % nr_fibres] : ring);
}

static void body(unsigned int fibre, void *unused)
{
	(void)unused;
	sim_go_to(fibre);
	for (unsigned int pair = 0; pair < PAIRS; pair++) {
		if (pair == WARM && ++nr_warm == nr_fibres)
			slabs_taken = slabs_given = 0;
		work(fibre);
	}
}

/* BARN-N3 */
static void check_partial(unsigned int cpu)
{
	struct sheaf *partial = barn_sheaf(*barn_partial_cell(&s->sheaf, cpu));

	if (partial && (!partial->size || partial->size >= partial->capacity))
		sim_fail("CPU %u: a sheaf of %u objects as the partial one", cpu, partial->size);
}

static void check_all(void)
{
	unsigned int partial = 0;

	barn_for_each_cell (&s->sheaf, cell) {
		struct sheaf *sheaf = barn_sheaf(*cell);

		if (sheaf && *cell & BARN_FULL && sheaf->size < sheaf->capacity)
			sim_fail("a sheaf of %u objects as a full one", sheaf->size);
		partial += sheaf && !(*cell & BARN_FULL) && sheaf->size;
	}
	for (unsigned int cpu = 0; cpu < os.nr_cpus; cpu++)
		check_partial(cpu);
	if (partial > os.nr_cpus)
		sim_fail("%u partial sheaves on %u CPUs", partial, os.nr_cpus);
}

static int run(void *data)
{
	struct kmem_cache_args args = {.sheaf_capacity = CAPACITY};
	const struct sim_config *config = data;
	double pairs;

	sim_start(config);
	s = kmem_cache_create("prefill", 64, &args, SLAB_NO_MERGE);
	if (!s)
		sim_fail("no memory");
	nr_fibres = config->cpus;
	sim_run(nr_fibres, body, NULL);
	pairs = (double)(PAIRS - WARM) * use->beside * nr_fibres;
	printf("%2u CPUs, %u nodes, %s: %.4f objects from slabs and %.4f to slabs for each pair\n",
	       config->cpus, config->nodes, use->name, (double)slabs_taken / pairs,
	       (double)slabs_given / pairs);
	fflush(stdout);
	/* One CPU in eight may still find that it needs a sheaf more. */
	if (slabs_given || slabs_taken > (nr_fibres / 8 + 1) * 2 * CAPACITY)
		sim_fail("too many from and to slabs");
	check_all();
	for (unsigned int i = 0; i < nr_fibres; i++)
		give(&rings[i]);
	if (kmem_cache_verify(s) || kmem_cache_shrink(s))
		sim_fail("objects are left when all were freed");
	return 0;
}

int main(void)
{
	static const struct use uses[] = {
		{"one size", CAPACITY / 2, 1, false, false},
		{"many sizes", 0, 1, false, false},
		{"one size, three sheaves", CAPACITY / 2, BESIDE, false, false},
		{"many sizes, three sheaves", 0, BESIDE, false, false},
		{"many sizes, other threads free", 0, 1, false, true},
		{"many sizes, threads move", 0, 1, true, false},
	};
	static const unsigned int machines[][2] = {{2, 1}, {8, 2}, {48, 1}, {96, 2}};
	struct sim_config config = {.seed = 1,
				    .backend = OS_BACKEND_RSEQ,
				    .step_ns = 10,
				    .switching = SIM_ALWAYS / 64,
				    .options = "sheaf_budget=64",
				    .silent = true,
				    .max_steps = UINT64_MAX};
	int failed = 0;
	uint64_t hash;

	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++)
		for (size_t k = 0; k < sizeof(uses) / sizeof(uses[0]); k++) {
			use = &uses[k];
			config.cpus = machines[i][0];
			config.nodes = machines[i][1];
			failed += sim_in_child(run, &config, &hash) != 0;
		}
	return failed != 0;
}
