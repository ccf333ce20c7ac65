/* SPDX-License-Identifier: MIT */
/*
 * How long the library holds locks that non-waiting calls take: it must not depend on the amount of
 * data. The same is done with few and with many slabs, caches and retired sheaves. The exception is
 * the node's lock during a shrink, which sorts the list under it (src/slab/shrink.c).
 */
#include <fcntl.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <stdio.h>
#include <unistd.h>

#include "kit/by_hand.h"
#include "os/lock.h"
#include "sim/sim.h"

enum {
	FEW = 4,
	MANY = 400,
	OBJECTS = 64 /* for each of the few or many: slabs, and a sheaf at least */
};

static const struct {
	unsigned int rank;
	const char *name;
} ranks[] = {
	{OS_RANK_SHARD, "SHARD"}, {OS_RANK_QUEUE, "QUEUE"}, {OS_RANK_NODE, "NODE"},
	{OS_RANK_POOL, "POOL"},	  {OS_RANK_PAGES, "PAGES"},
};

enum {
	NR_RANKS = sizeof(ranks) / sizeof(ranks[0])
};

static struct holds {
	uint64_t most[NR_RANKS], list; /* of caches, while statistics are read */
} few, many;

static void note(struct holds *holds)
{
	for (int i = 0; i < NR_RANKS; i++) {
		uint64_t steps = sim_longest_hold(ranks[i].rank);

		if (steps > holds->most[i])
			holds->most[i] = steps;
	}
}

static void look(struct kmem_cache *s, struct holds *holds)
{
	int file = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct kmem_cache_stats stats;

	sim_longest_hold(OS_RANK_CACHES);
	if (kmem_cache_stats(s, &stats) || sheaf_stats_print(file, SHEAF_STATS_TEXT))
		sim_fail("no statistics");
	holds->list = sim_longest_hold(OS_RANK_CACHES);
	close(file);
}

static void use(struct holds *holds, unsigned int n)
{
	static struct kmem_cache *caches[MANY];
	static void *objects[MANY * OBJECTS];
	struct kmem_cache *s;
	char name[16];

	for (unsigned int i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "holds-%u", i);
		caches[i] = kmem_cache_create(name, 64, NULL, SLAB_NO_MERGE);
	}
	s = caches[0];
	for (unsigned int i = 0; i < n * OBJECTS; i++)
		if (!(objects[i] = kmem_cache_alloc(s, GFP_KERNEL)))
			sim_fail("no memory");
	for (unsigned int i = 0; i < n * OBJECTS; i++)
		kmem_cache_free_rcu(s, objects[i]);
	look(s, holds);
	by_hand_pass();
	look(s, holds);
	for (unsigned int i = 0; i < OBJECTS; i++)
		kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	kvfree_rcu_barrier();
	note(holds);
	for (unsigned int i = 0; i < n; i++) {
		kmem_cache_shrink(caches[i]);
		sim_longest_hold(OS_RANK_NODE);
		note(holds);
		kmem_cache_destroy(caches[i]);
	}
}

static void body(unsigned int fibre, void *unused)
{
	(void)fibre, (void)unused;
	use(&few, FEW);
	use(&few, FEW);
	use(&many, MANY);
}

static bool grows(const char *name, uint64_t with_few, uint64_t with_many)
{
	if (with_many <= 2 * with_few + 100)
		return false;
	fprintf(stderr, "a lock of rank %s is held for %llu steps with %d, %llu with %d\n", name,
		(unsigned long long)with_few, FEW, (unsigned long long)with_many, MANY);
	return true;
}

static int run(void *config)
{
	int grown = 0;

	sim_start(config);
	if (sheaf_rcu_register(&by_hand_ops))
		return 1;
	sim_run(1, body, NULL);
	for (int i = 0; i < NR_RANKS; i++)
		grown += grows(ranks[i].name, few.most[i], many.most[i]);
	grown += grows("CACHES", few.list, many.list);
	return grown != 0;
}

int main(void)
{
	struct sim_config config = {.seed = 1, .cpus = 2, .nodes = 1, .max_steps = UINT64_MAX};
	uint64_t hash;

	config.backend = OS_BACKEND_RSEQ;
	return sim_in_child(run, &config, &hash);
}
