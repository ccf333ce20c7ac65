/* SPDX-License-Identifier: MIT */
/*
 * The process's budget on a large machine: many caches on every CPU. Barns together never hold more
 * than the budget plus what CPUs have not added to the sum yet; only the sheaves that CPUs work
 * with come on top. When one cache is destroyed, the others' CPUs get its part.
 */
#include <stdio.h>

#include "cache/cache.h"
#include "os/machine.h"
#include "percpu/barn/barn.h"
#include "percpu/barn/budget.h"
#include "percpu/drain.h"
#include "sim/sim.h"

enum {
	CACHES = 40,
	BATCH = 6, /* sheaves that a CPU allocates, and frees then */
	MOST = 4096,
	WORKING = 2, /* main and spare; there are no retired objects */
	FEW_FIBRES = 48,
	ROUNDS = 6,
};

static struct kmem_cache *caches_made[CACHES];
static size_t most_in_barns, without; /* bytes */

static unsigned int size_of(unsigned int i)
{
	return 32u << i % 6;
}

static void make_caches(void)
{
	for (unsigned int i = 0; i < CACHES; i++) {
		char name[16];

		snprintf(name, sizeof(name), "cache-%u", i);
		caches_made[i] = kmem_cache_create(name, size_of(i), NULL, SLAB_NO_MERGE);
		if (!caches_made[i])
			sim_fail("no memory");
	}
}

static size_t in_barns(void)
{
	size_t bytes = 0;

	for (unsigned int i = 0; i < CACHES; i++) {
		struct sheaf_cache *cache = caches_made[i] ? &caches_made[i]->sheaf : NULL;

		if (!cache)
			continue;
		barn_for_each_cell (cache, cell)
			if (*cell & BARN_FULL)
				bytes += sheaf_budget_of(cache, barn_sheaf(*cell)->capacity);
	}
	return bytes;
}

static unsigned int take(struct kmem_cache *s, void **objects)
{
	unsigned int n = BATCH * sheaf_capacity(&s->sheaf);

	for (unsigned int i = 0; i < n; i++) {
		objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
		if (!objects[i])
			sim_fail("no memory");
	}
	return n;
}

static void give(struct kmem_cache *s, void **objects, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		kmem_cache_free(s, objects[i]);
}

/* On the CPU of the caller. */
static void use(struct kmem_cache *s)
{
	void *objects[MOST];

	give(s, objects, take(s, objects));
}

/* The sheaves that CPUs work with, if so many have used each cache. */
static size_t working(size_t cpus)
{
	size_t bytes = 0;

	for (unsigned int i = 0; i < CACHES; i++)
		if (caches_made[i])
			bytes += WORKING *
				 (size_t)sheaf_budget_of(&caches_made[i]->sheaf,
							 sheaf_capacity(&caches_made[i]->sheaf));
	return bytes * cpus;
}

/* With what CPUs have not added to the sum yet. */
static size_t at_most(void)
{
	return (size_t)sheaf_budget.limit + (size_t)sheaf_budget.limit / 16;
}

static void check(size_t cpus)
{
	size_t barns = in_barns();

	if (barns > at_most())
		sim_fail("barns hold %zu bytes, of %zu", barns, at_most());
	if (sheaf_budget_used() > at_most() + working(cpus))
		sim_fail("%zu bytes count, of %zu, and sheaves in slots may have %zu",
			 sheaf_budget_used(), at_most(), working(cpus));
	most_in_barns = barns > most_in_barns ? barns : most_in_barns;
}

static void use_all(unsigned int cpus)
{
	for (unsigned int cpu = 0; cpu < cpus; cpu++) {
		sim_go_to(cpu);
		for (unsigned int i = 0; i < CACHES; i++)
			if (caches_made[i])
				use(caches_made[i]);
		check(cpu + 1);
	}
}

static void destroy_from(unsigned int first)
{
	for (unsigned int i = first; i < CACHES; i++) {
		kmem_cache_destroy(caches_made[i]);
		caches_made[i] = NULL;
	}
}

/* Every CPU has its objects at the same time: none takes those of another. */
static void use_at_once(struct kmem_cache *s, unsigned int cpus)
{
	static void *objects[384][MOST];
	unsigned int n[384];

	for (unsigned int cpu = 0; cpu < cpus; cpu++) {
		sim_go_to(cpu);
		n[cpu] = take(s, objects[cpu]);
	}
	for (unsigned int cpu = 0; cpu < cpus; cpu++) {
		sim_go_to(cpu);
		give(s, objects[cpu], n[cpu]);
	}
}

static unsigned int full_here(struct kmem_cache *s, unsigned int cpu)
{
	unsigned int full = 0;

	for (unsigned int i = 0; i < barn_shard_cells(); i++)
		full += slot_of_row(s->sheaf.at.handle, cpu)->cells[i] & BARN_FULL;
	return full;
}

/* Every CPU uses every cache, one after the other. */
static int many(void *data)
{
	const struct sim_config *config = data;
	struct kmem_cache *s;

	sim_start(config);
	make_caches();
	/* Without a bound, this is what they want. */
	sheaf_budget_set_limit(SIZE_MAX / 4);
	use_all(4);
	without = in_barns() / 4 * config->cpus;
	most_in_barns = 0;
	for (unsigned int i = 0; i < CACHES; i++)
		kmem_cache_shrink(caches_made[i]);
	sheaf_budget_set_limit(working(config->cpus) + without / 4);
	use_all(config->cpus);
	printf("%u CPUs: barns of %u caches hold %zu KiB of %zu, and would hold %zu\n",
	       config->cpus, CACHES, most_in_barns >> 10, at_most() >> 10, without >> 10);
	fflush(stdout);
	if (!most_in_barns || sheaf_budget_used() < at_most() - at_most() / 8)
		sim_fail("the budget is not used");
	/* The rest have room now, and a busy cache has shards on all CPUs. */
	destroy_from(1);
	sheaf_budget_set_limit(without);
	s = caches_made[0];
	for (unsigned int round = 0; round < 2; round++)
		use_at_once(s, config->cpus);
	for (unsigned int cpu = 0; cpu < config->cpus; cpu++)
		if (full_here(s, cpu) < 2)
			sim_fail("CPU %u's shard has %u full sheaves", cpu, full_here(s, cpu));
	destroy_from(0);
	if (sheaf_budget_used())
		sim_fail("%zu bytes are left", sheaf_budget_used());
	return 0;
}

/* Many CPUs use the same caches, and the limit changes. */
static void together_fibre(unsigned int fibre, void *data)
{
	const struct sim_config *config = data;

	sim_go_to(fibre * config->cpus / FEW_FIBRES);
	for (unsigned int round = 0; round < ROUNDS; round++)
		use(caches_made[sim_below(CACHES)]);
}

static int together(void *data)
{
	const struct sim_config *config = data;

	sim_start(config);
	make_caches();
	for (unsigned int i = 0; i < 4; i++) {
		sheaf_budget_set_limit((size_t)(i % 2 ? 1 : 4) << 20);
		sim_run(FEW_FIBRES, together_fibre, data);
		if (sheaf_budget_used() > ((size_t)4 << 20) * 17 / 16 + working(FEW_FIBRES))
			sim_fail("round %u: %zu bytes count", i, sheaf_budget_used());
	}
	for (unsigned int i = 0; i < CACHES; i++)
		if (kmem_cache_verify(caches_made[i]))
			sim_fail("cache %u is not in order", i);
	destroy_from(0);
	if (sheaf_budget_used())
		sim_fail("%zu bytes are left", sheaf_budget_used());
	return 0;
}

static int run(int (*body)(void *data), unsigned int cpus, unsigned int nodes, unsigned int backend)
{
	struct sim_config config = {.seed = 1,
				    .cpus = cpus,
				    .nodes = nodes,
				    .backend = backend,
				    .switching = SIM_ALWAYS / 64,
				    .silent = true,
				    .max_steps = UINT64_MAX};
	uint64_t hash;

	return sim_in_child(body, &config, &hash) != 0;
}

int main(void)
{
	int failed = 0;

	failed += run(many, 4, 1, OS_BACKEND_RSEQ);
	failed += run(many, 384, 1, OS_BACKEND_RSEQ);
	failed += run(many, 384, 4, OS_BACKEND_TRYLOCK);
	failed += run(together, 48, 1, OS_BACKEND_RSEQ);
	failed += run(together, 384, 8, OS_BACKEND_RSEQ);
	failed += run(together, 384, 8, OS_BACKEND_TRYLOCK);
	return failed != 0;
}
