/* SPDX-License-Identifier: MIT */
/*
 * Memory pools on simulated CPUs: more fibres than elements, over an allocator that usually
 * refuses. With patient waits the simulator detects when all fibres sleep: then a wake-up was lost
 * (MEMPOOL-N3). In some of these runs the fibres also resize the pool, several at the same time
 * (MEMPOOL-N1). In others they do nothing else, and the reserve has at most its minimum at the end.
 * Otherwise one fibre holds the whole reserve until the others have continued with the allocator
 * alone, which refuses for a while and then does not (MEMPOOL-N4). If nobody resizes or hoards, the
 * fibres also ask for several elements at once, up to the whole reserve (MEMPOOL-N8).
 *
 *   mempool [SEEDS]
 */
#include <stdio.h>
#include <stdlib.h>

#include "kmalloc/mempool.h"
#include "os/machine.h"
#include "sim/sim.h"

enum {
	QUICK_SEEDS = 300,
	MOST = 8,
	ROUNDS = 30
};

static mempool_t *pool;
static bool used[MOST];
static char elements[MOST];
static unsigned int nr_elements, refused, refused_calls;
static unsigned int working; /* fibres */
static bool hoards, resizes, resizes_only;

static void *few_alloc(gfp_t gfp, void *data)
{
	(void)gfp, (void)data;
	if (sim_holds_locks()) /* MEMPOOL-N6 */
		sim_fail("the allocator is called with a lock held");
	if (refused_calls && refused_calls--)
		return NULL;
	for (unsigned int i = 0; i < nr_elements && sim_below(16) >= refused; i++)
		if (!used[i]) {
			used[i] = true;
			return &elements[i];
		}
	return NULL;
}

static void few_free(void *element, void *data)
{
	(void)data;
	if (sim_holds_locks())
		sim_fail("the allocator is called with a lock held");
	used[(char *)element - elements] = false;
}

static void hoard(void)
{
	void *reserve[MOST];
	unsigned int n = 0;

	while ((reserve[n] = mempool_alloc_preallocated(pool)) != NULL)
		n++;
	while (working > 1)
		os_sleep_briefly();
	while (n)
		mempool_free(reserve[--n], pool);
}

static void use_many(void)
{
	void *many[MOST] = {NULL};
	unsigned int n = 1 + sim_below(pool->reserve->min_nr), done;

	if (sim_below(2))
		many[sim_below(n)] = mempool_alloc_noreserve(pool, GFP_NOWAIT);
	if (mempool_alloc_bulk(pool, many, n, 0))
		sim_fail("%u elements are refused", n);
	for (unsigned int i = 0; i < n; i++)
		if (!many[i])
			sim_fail("element %u of %u is missing", i, n);
	if (sim_below(4) == 0)
		os_sleep_briefly();
	for (done = mempool_free_bulk(pool, many, n); done < n; done++)
		mempool_free(many[done], pool);
}

static void use(unsigned int fibre, void *unused)
{
	(void)unused;
	if (hoards && fibre == 0) {
		hoard();
		return;
	}
	for (int i = 0; resizes_only && i < 4; i++)
		mempool_resize(pool, 1 + (int)sim_below(nr_elements));
	for (int i = 0; !resizes_only && i < ROUNDS; i++) {
		if (!hoards && !resizes && sim_below(3) == 0)
			use_many();
		void *element = mempool_alloc(pool, sim_below(4) ? GFP_KERNEL : GFP_NOWAIT);

		for (unsigned int wait = sim_below(8); wait > 0; wait--)
			os_sleep_briefly();
		mempool_free(element, pool);
		if (sim_below(64) == 0)
			mempool_free(mempool_alloc_preallocated(pool), pool);
		if (resizes && sim_below(8) == 0)
			mempool_resize(pool, 1 + (int)sim_below(200));
	}
	working--;
}

static int run(void *data)
{
	struct sim_config *config = data;
	unsigned int min_nr;

	sim_start(config);
	min_nr = 1 + sim_below(3);
	hoards = !config->patient;
	resizes = !hoards && sim_below(4) == 0;
	resizes_only = !hoards && !resizes && sim_below(4) == 0;
	nr_elements = min_nr + (hoards ? 1 : 0) + sim_below(3);
	refused = refused_calls = 0;
	pool = mempool_create((int)min_nr, few_alloc, few_free, NULL);
	if (!pool)
		sim_fail("no pool");
	if (hoards)
		refused_calls = sim_below(100);
	else if (!resizes_only)
		refused = sim_below(3) ? 16 : sim_below(17);
	working = 2 + sim_below(8);
	sim_run(working, use, NULL);
	if (resizes_only && pool->reserve->nr > pool->reserve->min_nr)
		sim_fail("%u elements are in a reserve of %u", pool->reserve->nr,
			 pool->reserve->min_nr);
	mempool_destroy(pool);
	for (unsigned int i = 0; i < nr_elements; i++)
		if (used[i])
			sim_fail("element %u is lost", i);
	return 0;
}

int main(int argc, char **argv)
{
	unsigned int seeds =
		argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 10) : (unsigned int)QUICK_SEEDS;
	struct sim_config config = {
		.cpus = 4, .nodes = 1, .silent = true, .step_ns = 100000, .max_steps = 1 << 24};
	unsigned int failed = 0;
	uint64_t hash;

	for (config.seed = 1; config.seed <= seeds; config.seed++) {
		config.switching = SIM_ALWAYS >> config.seed % 7;
		config.patient = config.seed % 4;
		config.backend = config.seed % 2 ? OS_BACKEND_RSEQ : OS_BACKEND_TRYLOCK;
		failed += sim_in_child(run, &config, &hash) != 0;
	}
	printf("%u seeds, %u failed\n", seeds, failed);
	return failed != 0;
}
