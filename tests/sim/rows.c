/* SPDX-License-Identifier: MIT */
/*
 * Rows on a large machine: 300 caches on 384 CPUs need fewer mappings than there are CPUs, use
 * memory only where a CPU used them, and a drain of every CPU writes to no unused row. Neither a
 * drain nor a fork looks at CPUs that did not use the cache: their steps are counted. With rows by
 * mm_cid, slots are in the first rows, and the barn's shards in the rows of the CPUs on which the
 * program ran. No thread locks a closed slot, which a forked child would not unlock.
 */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/atomic.h"
#include "os/machine.h"
#include "os/memory.h"
#include "os/section.h"
#include "sim/sim.h"
#include <sheaf/slab.h>

enum {
	CPUS = 384,
	CACHES = 300,
	FIBRES = 4,
	OBJECTS = 130, /* more than two sheaves hold */
	PAGES_OF_A_CPU = (CACHES + 1) * sizeof(struct slot) / OS_PAGE + 2,
	MOST_STEPS = 2000, /* of a drain that empties four CPUs' sheaves */
	FORK_STEPS = 500,
};

static struct kmem_cache *made[CACHES];

static unsigned int mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	unsigned int n = 0;
	int c;

	while (file && (c = getc(file)) != EOF)
		n += c == '\n';
	if (!file || fclose(file) || !n)
		sim_fail("/proc/self/maps cannot be read");
	return n;
}

static void use_all(unsigned int fibre, void *unused)
{
	(void)fibre, (void)unused;
	for (unsigned int i = 0; i < CACHES; i++) {
		void *objects[OBJECTS];

		for (unsigned int k = 0; k < OBJECTS; k++) {
			objects[k] = kmem_cache_alloc(made[i], GFP_KERNEL);
			if (!objects[k])
				sim_fail("no memory");
		}
		for (unsigned int k = 0; k < OBJECTS; k++)
			kmem_cache_free(made[i], objects[k]);
	}
}

/* Steps for each cache, since `before`. */
static void check_steps(const char *what, uint64_t before, unsigned int most)
{
	unsigned int steps = (unsigned int)((sim_steps() - before) / CACHES);

	printf("%s: %u steps for each cache\n", what, steps);
	if (steps > most)
		sim_fail("%s takes %u steps for each cache", what, steps);
	fflush(stdout);
}

/* The handlers of the library, in both processes. */
static void fork_once(unsigned int fibre, void *unused)
{
	uint64_t before = sim_steps();
	pid_t child = fork();
	int status;

	(void)fibre, (void)unused;
	check_steps(child ? "a fork, in the parent" : "a fork, in the child", before, FORK_STEPS);
	if (!child)
		_exit(0);
	if (waitpid(child, &status, 0) != child || status)
		sim_fail("the forked child failed");
}

static void shrink_all(unsigned int fibre, void *unused)
{
	uint64_t before = sim_steps();

	(void)fibre, (void)unused;
	for (unsigned int i = 0; i < CACHES; i++)
		if (kmem_cache_shrink(made[i]))
			sim_fail("cache %u keeps slabs", i);
	check_steps("a drain", before, MOST_STEPS);
}

/* The slot that fibre 0 uses next: closed. */
static struct slot *closed_slot;

/* Fibre 0 opens slots, the other one looks on: no closed slot is locked (ROWS-W2). */
static void open_or_watch(unsigned int fibre, void *unused)
{
	(void)unused;
	if (fibre) {
		for (struct slot *slot; (slot = os_load_acquire(&closed_slot)) != NULL;)
			if (os_load_acquire(&slot->lock) && !os_load_acquire(&slot->home_size))
				sim_fail("a closed slot is locked");
		return;
	}
	for (unsigned int i = 0; i < CACHES; i++) {
		os_store_release(&closed_slot, slot_of_row((char *)made[i], os_row()));
		kmem_cache_free(made[i], kmem_cache_alloc(made[i], GFP_KERNEL));
	}
	os_store_release(&closed_slot, NULL);
}

static void make_all(void)
{
	char name[32];

	for (unsigned int i = 0; i < CACHES; i++) {
		snprintf(name, sizeof(name), "cache-%u", i);
		made[i] = kmem_cache_create(name, 64, NULL, SLAB_NO_MERGE);
		if (!made[i])
			sim_fail("cache %u cannot be made", i);
	}
}

static int watch(void *config)
{
	sim_start(config);
	make_all();
	closed_slot = slot_of_row((char *)made[0], 0);
	sim_run(2, open_or_watch, NULL);
	fflush(stdout);
	return 0;
}

static int run(void *data)
{
	const struct sim_config *config = data;
	size_t idle, used, drained, rows = config->options ? 2 * FIBRES : FIBRES;
	unsigned int mapped;

	sim_start(data);
	mapped = mappings();
	make_all();
	mapped = mappings() - mapped;
	idle = sim_row_pages();
	sim_run(FIBRES, use_all, NULL);
	used = sim_row_pages();
	sim_run(1, fork_once, NULL);
	sim_run(1, shrink_all, NULL);
	drained = sim_row_pages();
	printf("%u mappings; pages of rows: %zu idle, %zu used by %d CPUs, %zu after a drain\n",
	       mapped, idle, used, FIBRES, drained);
	if (mapped > CPUS)
		sim_fail("%d caches take %u mappings", CACHES, mapped);
	if (idle)
		sim_fail("idle caches cost %zu pages", idle);
	if (!used || used > rows * PAGES_OF_A_CPU)
		sim_fail("%d CPUs at work cost %zu pages", FIBRES, used);
	if (drained != used)
		sim_fail("a drain cost %zu pages", drained - used);
	fflush(stdout);
	return 0;
}

int main(void)
{
	struct sim_config config = {.seed = 1,
				    .cpus = CPUS,
				    .nodes = 4,
				    .switching = SIM_ALWAYS / 16,
				    .max_steps = UINT64_MAX};
	uint64_t hash;
	int failed = 0;

	for (config.backend = OS_BACKEND_TRYLOCK; config.backend <= OS_BACKEND_RSEQ;
	     config.backend++)
		failed += sim_in_child(run, &config, &hash) != 0;
	config.backend = OS_BACKEND_RSEQ;
	config.nodes = 1;
	config.options = "index=mm_cid";
	failed += sim_in_child(run, &config, &hash) != 0;
	config.backend = OS_BACKEND_TRYLOCK;
	config.options = NULL;
	/* Two CPUs share a bit of those that say which rows are in use. */
	config.cpus = 2000;
	config.switching = SIM_ALWAYS / 4;
	failed += sim_in_child(watch, &config, &hash) != 0;
	return failed != 0;
}
