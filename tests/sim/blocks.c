/* SPDX-License-Identifier: MIT */
/*
 * Large blocks on simulated CPUs: if several fibres free the same block, exactly one does, in any
 * order; a concurrent lookup of an address finds its block, or run, or none; a freed block that
 * waits goes to one fibre, while others trim; what a page run leaves in descriptors leads to no run
 * that was taken later; and the number of steps of an allocation or a free does not depend on the
 * number of blocks.
 *
 *   blocks [SEEDS]
 */
#include <stdio.h>
#include <stdlib.h>

#include "cache/block.h"
#include "os/machine.h"
#include "os/options/options.h"
#include "page/limit.h"
#include "page/map_kept.h"
#include "page/page.h"
#include "sim/sim.h"
#include <sheaf/group.h>
#include <sheaf/slab.h>

#define MiB ((size_t)1 << 20)

enum {
	QUICK_SEEDS = 150,
	FIBRES = 5,
	BLOCKS = 20,
	ROUNDS = 12,
	LOOKS = 500,
	MANY = 1000
};

static char *blocks[BLOCKS];
static unsigned int begun[BLOCKS], freed[BLOCKS]; /* frees */

static size_t size_of(unsigned int i)
{
	return 3 * MiB + i % 4 * MiB;
}

static void look(unsigned int i)
{
	char *at = blocks[i] + sim_below((unsigned int)size_of(i));
	struct mapping found = map_find(at);

	if (found.address && (found.address != blocks[i] || found.size != size_of(i)))
		sim_fail("%p is in %p, not in %p", (void *)at, (void *)blocks[i],
			 (void *)found.address);
	if (!found.address && !begun[i])
		sim_fail("%p is not found", (void *)at);
}

static void use(unsigned int fibre, void *unused)
{
	(void)unused;
	for (unsigned int n = 0; n < BLOCKS; n++) {
		unsigned int i = (n + fibre) % BLOCKS;

		look(sim_below(BLOCKS));
		begun[i]++;
		if (map_free(blocks[i]))
			freed[i]++;
	}
}

static int run(void *data)
{
	struct kmem_cache *first;

	sim_start(data);
	first = kmem_cache_create("first-use", 64, NULL, 0);
	for (unsigned int i = 0; i < BLOCKS; i++) {
		blocks[i] = first ? map_alloc(size_of(i), 1, 0, true) : NULL;
		if (!blocks[i])
			sim_fail("no memory");
	}
	sim_run(FIBRES, use, NULL);
	for (unsigned int i = 0; i < BLOCKS; i++)
		if (freed[i] != 1)
			sim_fail("block %u was freed %u times", i, freed[i]);
	if (map_bytes())
		sim_fail("%zu bytes are left over", map_bytes());
	return 0;
}

/* Few sizes, so that fibres often want the same block. */
static void use_again(unsigned int fibre, void *unused)
{
	char *mine[2] = {NULL, NULL};

	(void)unused;
	for (unsigned int n = 0; n < 2 * ROUNDS; n++) {
		unsigned int i = sim_below(2);

		if (mine[i]) {
			if (mine[i][0] != (char)('a' + fibre) || mine[i][MiB] != (char)n)
				sim_fail("%p has two owners", (void *)mine[i]);
		}
		if (mine[i] && sim_below(2)) {
			if (!map_free(mine[i]))
				sim_fail("%p is not freed", (void *)mine[i]);
			mine[i] = NULL;
		} else if (!mine[i]) {
			mine[i] = map_alloc(3 * MiB + sim_below(2) * MiB, 1, fibre % os.nr_nodes,
					    sim_below(2));
		}
		for (i = 0; i < 2; i++)
			if (mine[i]) {
				mine[i][0] = (char)('a' + fibre);
				mine[i][MiB] = (char)(n + 1);
			}
		if (sim_below(8) == 0)
			map_trim(1);
		if (sim_below(8) == 0)
			map_decay(fibre % os.nr_nodes, os_now_ms() + os_options.decay);
	}
	for (unsigned int i = 0; i < 2; i++)
		if (mine[i] && !map_free(mine[i]))
			sim_fail("%p is not freed", (void *)mine[i]);
}

static bool is_accounted_for(void)
{
	struct page_usage usage = page_usage();

	return page_limit.held << OS_PAGE_SHIFT == usage.used + usage.dirty;
}

static int run_again(void *data)
{
	sim_start(data);
	if (!kmem_cache_create("first-use", 64, NULL, 0))
		sim_fail("no memory");
	sim_run(FIBRES, use_again, NULL);
	if (map_bytes())
		sim_fail("%zu bytes are left over", map_bytes());
	if (!is_accounted_for())
		sim_fail("%zu bytes wait, and %zu pages are held", map_kept_bytes(),
			 page_limit.held);
	map_trim(SIZE_MAX);
	if (map_kept_bytes() || !is_accounted_for())
		sim_fail("%zu bytes wait after a trim, and %zu pages are held", map_kept_bytes(),
			 page_limit.held);
	return 0;
}

/* A chunk is a run, then free, then half of it is another run. */
enum phase {
	WHOLE,
	FREE,
	HALF,
	PHASES
};

static struct slab *chunk;
static unsigned int phase; /* counts on */

/* The others have time to begin, and to end. */
static void begin_phase(unsigned int next)
{
	os_store_release(&phase, next);
	for (unsigned int n = 0; n < LOOKS; n++)
		os_load_relaxed(&phase);
}

static void reuse_chunk(void)
{
	static char owners[2];

	for (unsigned int n = 0; n < ROUNDS; n++) {
		if (page_alloc(0, PAGE_MAX_ORDER) != chunk)
			sim_fail("another chunk is taken");
		page_own(chunk, PAGE_MAX_ORDER, (struct slab_cache *)&owners[0]);
		page_free(chunk, PAGE_MAX_ORDER);
		begin_phase(n * PHASES + FREE);
		if (page_alloc(0, PAGE_MAX_ORDER - 1) != chunk)
			sim_fail("a run in another chunk is taken");
		page_own(chunk, PAGE_MAX_ORDER - 1, (struct slab_cache *)&owners[1]);
		begin_phase(n * PHASES + HALF);
		page_free(chunk, PAGE_MAX_ORDER - 1);
		begin_phase((n + 1) * PHASES + WHOLE);
	}
}

/* In the half that no other run has. A page that is taken and free again during a lookup may be
 * found by itself. */
static void look_at_chunk(void)
{
	const char *other = page_address(chunk) + OS_HUGE / 2;

	for (unsigned int n = 0; n < ROUNDS * LOOKS; n++) {
		unsigned int before = os_load_acquire(&phase);
		struct slab *found = page_slab(other + n % 256 * OS_PAGE);
		unsigned int after = os_load_acquire(&phase);
		bool again = after / PHASES > before / PHASES;

		if (found &&
		    (found == chunk ? before % PHASES != WHOLE && !again : before == after))
			sim_fail("a page of no run is found in one");
	}
}

static void reuse(unsigned int fibre, void *unused)
{
	(void)unused;
	if (fibre)
		look_at_chunk();
	else
		reuse_chunk();
}

static int run_reuse(void *data)
{
	struct slab *half;

	sim_start(data);
	if (!kmem_cache_create("first-use", 64, NULL, 0))
		sim_fail("no memory");
	do
		chunk = page_alloc(0, PAGE_MAX_ORDER - 1);
	while (chunk && (uintptr_t)page_address(chunk) % OS_HUGE);
	half = page_alloc(0, PAGE_MAX_ORDER - 1);
	if (!chunk || half != chunk + 256)
		sim_fail("no memory");
	page_free(chunk, PAGE_MAX_ORDER - 1);
	page_free(half, PAGE_MAX_ORDER - 1);
	sim_run(3, reuse, NULL);
	return 0;
}

/* A run comes and goes while other fibres ask what is at its address: a late answer may have
 * another size, but never another block. */
static void find(unsigned int fibre, void *unused)
{
	static char *at;

	(void)unused;
	for (unsigned int n = 0; n < (fibre ? LOOKS : ROUNDS); n++) {
		if (!fibre) {
			char *run = kvmalloc(2 * MiB, GFP_KERNEL);

			if (!run)
				sim_fail("no memory");
			os_store_release(&at, run);
			kvfree(run);
		} else {
			char *run = os_load_acquire(&at);
			struct block block = block_of(run);

			if (block.kind != BLOCK_NONE && block.start != run)
				sim_fail("%p is in block %p", (void *)run, (void *)block.start);
			if (kmem_group_of(run))
				sim_fail("%p is charged", (void *)run);
		}
	}
}

static int run_find(void *data)
{
	sim_start(data);
	if (!kmem_cache_create("first-use", 64, NULL, 0) || !kmem_group_create("any", NULL, NULL))
		sim_fail("no memory");
	sim_run(3, find, NULL);
	return 0;
}

/* The least of a few: sometimes a block is the first of 8 GiB, and creates their leaf. */
static uint64_t steps_of_a_pair(void)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 3; i++) {
		uint64_t before = sim_steps();
		char *block = map_alloc(3 * MiB, 1, 0, true);

		if (!block || !map_free(block))
			sim_fail("a block cannot be allocated or freed");
		if (sim_steps() - before < least)
			least = sim_steps() - before;
	}
	return least;
}

static void count_steps(unsigned int fibre, void *steps)
{
	(void)fibre;
	*(uint64_t *)steps = steps_of_a_pair();
}

static int count(void *data)
{
	uint64_t few, many;

	sim_start(data);
	if (!kmem_cache_create("first-use", 64, NULL, 0))
		sim_fail("no memory");
	sim_run(1, count_steps, &few);
	for (int i = 0; i < MANY; i++)
		if (!map_alloc(3 * MiB, 1, 0, true))
			sim_fail("no memory");
	sim_run(1, count_steps, &many);
	printf("steps of an allocation and a free: %llu, beside %d others %llu\n",
	       (unsigned long long)few, MANY, (unsigned long long)many);
	fflush(stdout);
	return !few || many != few;
}

int main(int argc, char **argv)
{
	uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : QUICK_SEEDS;
	struct sim_config config = {.cpus = 4, .nodes = 1, .silent = true, .max_steps = 1 << 24};
	unsigned int failed = 0;
	uint64_t hash;

	for (config.seed = 1; config.seed <= seeds; config.seed++) {
		config.switching = SIM_ALWAYS >> config.seed % 7;
		config.backend = config.seed % 2 ? OS_BACKEND_RSEQ : OS_BACKEND_TRYLOCK;
		failed += sim_in_child(run, &config, &hash) != 0;
		/* A fibre does not run while another one changes hundreds of words. */
		config.switching >>= 6;
		if (config.seed % 3 == 0)
			failed += sim_in_child(run_reuse, &config, &hash) != 0;
		config.switching = SIM_ALWAYS >> config.seed % 7;
		config.nodes = 1 + config.seed % 2;
		failed += sim_in_child(run_again, &config, &hash) != 0;
		failed += sim_in_child(run_find, &config, &hash) != 0;
		config.nodes = 1;
	}
	failed += sim_in_child(count, &config, &hash) != 0;
	printf("%llu seeds, %u failed\n", (unsigned long long)seeds, failed);
	return failed != 0;
}
