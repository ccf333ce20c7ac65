/* SPDX-License-Identifier: MIT */
/*
 * How long the library holds locks that non-waiting calls take, those above OS_RANK_DRAIN: for at
 * most MOST_STEPS steps, whatever the amount of data and in every call except fork() (SLAB-B10,
 * QUEUE-Q4).
 * One fibre uses many objects, slabs, caches, groups, pools and shrinkers, and the longest holds of
 * each call are looked at. Statistics hold no lock of a lower rank for longer, either: that of the
 * list of caches.
 */
#include <fcntl.h>
#include <sheaf/debug.h>
#include <sheaf/group.h>
#include <sheaf/kmalloc.h>
#include <sheaf/limit.h>
#include <sheaf/mempool.h>
#include <sheaf/shrinker.h>
#include <sheaf/slab.h>
#include <sheaf/stats.h>
#include <sheaf/trim.h>
#include <stdio.h>
#include <unistd.h>

#include "kit/by_hand.h"
#include "os/lock.h"
#include "sim/sim.h"

enum {
	MANY = 600,
	OBJECTS = 64,	 /* for each of the many: slabs, and a sheaf at least */
	MOST_STEPS = 512 /* 64 slabs or blocks, of at most 8 steps */
};

static const struct {
	unsigned int rank;
	const char *name;
} ranks[] = {
	{OS_RANK_SHARD, "SHARD"},     {OS_RANK_QUEUE, "QUEUE"},		{OS_RANK_NODE, "NODE"},
	{OS_RANK_OWNERS, "OWNERS"},   {OS_RANK_POOL, "POOL"},		{OS_RANK_PAGES, "PAGES"},
	{OS_RANK_MEMPOOL, "MEMPOOL"}, {OS_RANK_SHRINKERS, "SHRINKERS"}, {OS_RANK_CACHES, "CACHES"},
};

enum {
	NR_RANKS = sizeof(ranks) / sizeof(ranks[0])
};

static unsigned int failed;

static void forget(void)
{
	for (int i = 0; i < NR_RANKS; i++)
		sim_longest_hold(ranks[i].rank);
}

/* What was done since the last call of this function. */
static void did(const char *what)
{
	for (int i = 0; i < NR_RANKS - 1; i++) {
		uint64_t steps = sim_longest_hold(ranks[i].rank);

		if (steps <= MOST_STEPS)
			continue;
		fprintf(stderr, "%s: a lock of rank %s is held for %llu steps\n", what,
			ranks[i].name, (unsigned long long)steps);
		failed++;
	}
}

static void did_look(const char *what)
{
	uint64_t steps = sim_longest_hold(OS_RANK_CACHES);

	did(what);
	if (steps <= MOST_STEPS)
		return;
	fprintf(stderr, "%s: the list of caches is locked for %llu steps\n", what,
		(unsigned long long)steps);
	failed++;
}

static void *objects[MANY * OBJECTS];
static struct kmem_cache *caches[MANY];

static void take_all(struct kmem_cache *s)
{
	for (unsigned int i = 0; i < MANY * OBJECTS; i++)
		if (!(objects[i] = kmem_cache_alloc(s, GFP_KERNEL)))
			sim_fail("no memory");
}

static void free_one_in(struct kmem_cache *s, unsigned int part, unsigned int first)
{
	for (unsigned int i = first; i < MANY * OBJECTS; i += part)
		kmem_cache_free(s, objects[i]);
}

static void look(struct kmem_cache *s)
{
	int file = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct kmem_cache_stats stats;
	struct sheaf_stats all;

	forget();
	if (kmem_cache_stats(s, &stats))
		sim_fail("no statistics");
	sheaf_stats(&all);
	did_look("kmem_cache_stats");
	if (sheaf_stats_print(file, SHEAF_STATS_TEXT) || sheaf_stats_print(file, SHEAF_STATS_JSON))
		sim_fail("no statistics");
	did_look("sheaf_stats_print");
	close(file);
}

/* A limit refuses while there are many caches, of which few have anything to reclaim. */
static void fail_beside_many(void)
{
	sheaf_set_limits(0, 1);
	for (int i = 0; i < 2; i++) {
		kmem_cache_free(caches[0], kmem_cache_alloc(caches[0], GFP_KERNEL));
		if (kmalloc(100000, GFP_KERNEL))
			sim_fail("a block above the limit");
		did_look("an allocation that fails beside many caches");
	}
	sheaf_set_limits(0, 0);
}

static void use_caches(void)
{
	char name[16];

	for (unsigned int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "holds-%u", i);
		caches[i] = kmem_cache_create(name, 64, NULL, SLAB_NO_MERGE);
		kmem_cache_free(caches[i], kmem_cache_alloc(caches[i], GFP_KERNEL));
	}
	did("kmem_cache_create");
	sheaf_trim(0);
	did("sheaf_trim of many caches");
	fail_beside_many();
	for (unsigned int i = 1; i < MANY; i++)
		kmem_cache_destroy(caches[i]);
	did("kmem_cache_destroy");
}

static void retire(struct kmem_cache *s)
{
	take_all(s);
	did("kmem_cache_alloc");
	for (unsigned int i = 0; i < MANY * OBJECTS; i++)
		kmem_cache_free_rcu(s, objects[i]);
	did("kmem_cache_free_rcu");
	look(s);
	by_hand_pass();
	did("a grace period");
	look(s);
	for (unsigned int i = 0; i < OBJECTS; i++)
		kmem_cache_free(s, kmem_cache_alloc(s, GFP_KERNEL));
	did("kmem_cache_alloc after a grace period");
	kvfree_rcu_barrier();
	did("kvfree_rcu_barrier");
	kmem_cache_shrink(s);
	did("kmem_cache_shrink of retired objects");
}

/* Long partial lists: each slab has one free object, or one in use. */
static void use_partial_slabs(struct kmem_cache *s)
{
	static void *more[MANY * OBJECTS];
	struct slab_sheaf *sheaf;

	take_all(s);
	free_one_in(s, OBJECTS, 0);
	did("kmem_cache_free");
	kmem_cache_shrink(s);
	did("kmem_cache_shrink of partial slabs");
	sheaf_trim(0);
	did("sheaf_trim of partial slabs");
	kmem_cache_validate(s);
	did("kmem_cache_validate");
	kmem_cache_verify(s);
	did("kmem_cache_verify");
	if (!kmem_cache_alloc_bulk(s, GFP_KERNEL, MANY, more))
		sim_fail("no memory");
	did("kmem_cache_alloc_bulk of many slabs");
	kmem_cache_free_bulk(s, MANY, more);
	sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, MANY);
	did("kmem_cache_prefill_sheaf of many slabs");
	if (sheaf)
		kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
	did("kmem_cache_return_sheaf to many slabs");
	for (unsigned int i = 1; i < OBJECTS; i++)
		free_one_in(s, OBJECTS, i);
	kmem_cache_shrink(s);
	did("kmem_cache_shrink of empty slabs");
}

/* Slabs that stay listed although they are empty. */
static void use_without_waiting(struct kmem_cache *s)
{
	take_all(s);
	for (unsigned int i = 0; i < MANY * OBJECTS; i++)
		kmem_cache_free_nolock(s, objects[i]);
	did("kmem_cache_free_nolock");
	kmem_cache_shrink(s);
	did("kmem_cache_shrink of many slabs that nolock frees emptied");
	take_all(s);
	kmem_cache_free_bulk(s, MANY * OBJECTS, objects);
	did("kmem_cache_free_bulk");
	sheaf_trim(0);
	did("sheaf_trim of empty slabs");
}

/* A limit refuses: everything is reclaimed. */
static void fail(struct kmem_cache *s)
{
	struct kmem_cache *other = kmem_cache_create("fails", 8192, NULL, SLAB_NO_MERGE);

	take_all(s);
	free_one_in(s, 2, 0);
	kmem_cache_set_limit(other, 1);
	if (kmem_cache_alloc(other, GFP_KERNEL))
		sim_fail("an object above the cache's limit");
	did("an allocation that fails at the cache's limit");
	kmem_cache_set_limit(other, 0);
	sheaf_set_limits(0, 1);
	did("sheaf_set_limits");
	if (kmem_cache_alloc(other, GFP_KERNEL))
		sim_fail("an object above the limit");
	did("an allocation that fails at the hard limit");
	free_one_in(s, 2, 1);
	sheaf_set_limits(0, 0);
	kmem_cache_destroy(other);
	kmem_cache_shrink(s);
	did("kmem_cache_shrink after failures");
}

/* Page runs, mappings and what is kept of them. */
static void use_blocks(void)
{
	static const size_t sizes[] = {9000, 100000, (size_t)3 << 20, (size_t)40 << 20};

	for (unsigned int i = 0; i < MANY; i++)
		objects[i] = kvmalloc(sizes[i % (i % 64 ? 3 : 4)], GFP_KERNEL);
	did("kvmalloc");
	for (unsigned int i = 0; i < MANY; i++)
		objects[i] = kvrealloc(objects[i], 2 * ksize(objects[i]), GFP_KERNEL);
	did("kvrealloc");
	for (unsigned int i = 0; i < MANY; i++)
		kvfree(objects[i]);
	did("kvfree");
	sheaf_trim(0);
	did("sheaf_trim of blocks");
}

static void use_groups(void)
{
	static struct kmem_group *groups[MANY];
	struct kmem_group_stats stats;

	for (unsigned int i = 0; i < MANY; i++) {
		groups[i] = kmem_group_create("group", NULL, NULL);
		objects[i] = kmalloc_charged(1000, GFP_KERNEL, groups[i]);
	}
	did("kmalloc_charged");
	if (kmem_group_stats(groups[0], &stats))
		sim_fail("no statistics");
	did("kmem_group_stats");
	kmem_group_verify();
	did("kmem_group_verify");
	for (unsigned int i = 0; i < MANY; i++)
		kmem_group_put(groups[i]);
	did("kmem_group_put");
	for (unsigned int i = 0; i < MANY; i++)
		kfree(objects[i]);
	did("kfree of charged objects");
	sheaf_trim(0);
	did("sheaf_trim of slabs with owners");
}

static void use_mempools(void)
{
	static mempool_t *pools[MANY];

	for (unsigned int i = 0; i < MANY; i++)
		pools[i] = mempool_create_kmalloc_pool(i ? 1 : MANY, 64);
	did("mempool_create");
	mempool_resize(pools[0], MANY * 2);
	mempool_resize(pools[0], 1);
	did("mempool_resize");
	for (unsigned int i = 0; i < MANY; i++)
		mempool_free(mempool_alloc(pools[i], GFP_KERNEL), pools[i]);
	did("mempool_free");
	for (unsigned int i = 0; i < MANY; i++)
		mempool_destroy(pools[i]);
	did("mempool_destroy");
}

static unsigned long nothing(struct shrinker *shrinker, struct shrink_control *sc)
{
	(void)shrinker, (void)sc;
	return 0;
}

static void use_shrinkers(void)
{
	static struct shrinker *shrinkers[MANY];

	for (unsigned int i = 0; i < MANY; i++) {
		shrinkers[i] = shrinker_alloc(0, "holds-%u", i);
		shrinkers[i]->count_objects = shrinkers[i]->scan_objects = nothing;
		shrinker_register(shrinkers[i]);
	}
	did("shrinker_register");
	sheaf_trim(0);
	did("sheaf_trim with shrinkers");
	for (unsigned int i = 0; i < MANY; i++)
		shrinker_free(shrinkers[i]);
	did("shrinker_free");
}

static void body(unsigned int fibre, void *unused)
{
	(void)fibre, (void)unused;
	use_caches();
	retire(caches[0]);
	use_partial_slabs(caches[0]);
	use_without_waiting(caches[0]);
	fail(caches[0]);
	use_blocks();
	use_groups();
	use_mempools();
	use_shrinkers();
	kmem_cache_destroy(caches[0]);
	did("kmem_cache_destroy of many slabs");
}

static int run(void *config)
{
	sim_start(config);
	if (sheaf_rcu_register(&by_hand_ops))
		return 1;
	sim_run(1, body, NULL);
	return failed != 0;
}

int main(void)
{
	struct sim_config config = {.seed = 1, .cpus = 2, .nodes = 1, .max_steps = UINT64_MAX};
	uint64_t hash;

	config.backend = OS_BACKEND_RSEQ;
	return sim_in_child(run, &config, &hash);
}
