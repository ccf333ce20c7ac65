/* SPDX-License-Identifier: MIT */
/*
 * Barns of large machines: their limits, finding sheaves in other CPUs' shards and the cost of
 * that, the number of objects that pass through slabs when CPUs free, in bursts, objects of other
 * CPUs, and sheaves that move from CPU to CPU without need.
 */
#include <stdio.h>

#include "cache/cache.h"
#include "os/machine.h"
#include "percpu/barn/barn.h"
#include "percpu/barn/cells.h"
#include "percpu/sheaf.h"
#include "sim/kit/slabs.h"
#include "sim/sim.h"

enum {
	BUSY = 1100,	  /* swaps after which sheaves have grown */
	MOST_STEPS = 700, /* of one search, on every machine: shards and blocks of cells */
	NONE_STEPS = 100, /* of one that must find nothing: eight lines of cells and words */
	RING = 1024,	  /* objects in flight */
	BURSTS = 48,
	WARM = BURSTS / 2, /* bursts until every pair has its objects */
	OWN = 1000,	   /* objects of a batch that a CPU frees itself */
	OWN_ROUNDS = 96,   /* sheaves grow in the first half */
	MOST_CPUS = 64,	   /* of tests whose CPUs all work in parallel */
	FEW = 300,	   /* they fit into a CPU's shard */
	LITTLE = 8 << 20,  /* memory that is soon used up */
};

static struct kmem_cache *s;
static uint64_t from_others, from_afar; /* sheaves of other CPUs' shards; behind other caches */

static struct kmem_cache *new_cache(unsigned int size)
{
	struct kmem_cache *made = kmem_cache_create("barns", size, NULL, SLAB_NO_MERGE);

	if (!made)
		sim_fail("no memory");
	return made;
}

void __real_barn_finish(struct sheaf_cache *cache, struct barn_cell *cell, struct sheaf *sheaf);
void __wrap_barn_finish(struct sheaf_cache *cache, struct barn_cell *cell, struct sheaf *sheaf);

/* Every sheaf that is taken from a cell passes through here. */
void __wrap_barn_finish(struct sheaf_cache *cache, struct barn_cell *cell, struct sheaf *sheaf)
{
	unsigned int row, first = 2; /* the row of CPU 0 */
	uintptr_t begin;

	if (sim_row((uintptr_t)cell->at, &row, &begin) && row - first != cell->cpu) {
		from_others++;
		from_afar += os.place_of[row - first].cache != os.place_of[cell->cpu].cache;
	}
	__real_barn_finish(cache, cell, sheaf);
}

struct sheaf *__real_barn_search_shard(const struct barn_search *search, unsigned int cpu);
struct sheaf *__wrap_barn_search_shard(const struct barn_search *search, unsigned int cpu);
struct sheaf *__real_barn_search_part(const struct barn_search *search, unsigned int part);
struct sheaf *__wrap_barn_search_part(const struct barn_search *search, unsigned int part);

struct sheaf *__wrap_barn_search_shard(const struct barn_search *search, unsigned int cpu)
{
	if (cpu >= os.nr_cpus || os.node_of_row[cpu] != search->node)
		sim_fail("node %u: its barn is searched at CPU %u", search->node, cpu);
	return __real_barn_search_shard(search, cpu);
}

static unsigned int first_part = BARN_PARTS; /* where a full sheaf was put first */

struct sheaf *__wrap_barn_search_part(const struct barn_search *search, unsigned int part)
{
	if (search->put && first_part == BARN_PARTS)
		first_part = part;
	if (part >= BARN_PARTS)
		sim_fail("node %u: part %u of a block is searched", search->node, part);
	return __real_barn_search_part(search, part);
}

/* --- limits ----------------------------------------------------------------------------------- */

static size_t larger(size_t one, size_t other)
{
	return one > other ? one : other;
}

static void check_limits(unsigned int cpus_of_node, const char *when)
{
	const struct sheaf_cache *cache = &s->sheaf;
	size_t sheaf = sheaf_capacity(cache) * (size_t)cache->slab.size;
	size_t sheaves = cache->barn_full + (size_t)cache->shard_full * cpus_of_node;
	size_t wanted = larger(cpus_of_node * BARN_CPU_BYTES / sheaf, BARN_FLOOR);
	size_t two = BARN_CPU_BYTES / sheaf < 2 ? BARN_CPU_BYTES / sheaf : 2;

	if (cache->shard_full < two)
		sim_fail("%s, size %u: shards of %u sheaves", when, cache->slab.size,
			 cache->shard_full);
	if (sheaves > wanted)
		sim_fail("%s, size %u: %zu sheaves, of %zu", when, cache->slab.size, sheaves,
			 wanted);
	if (sheaves < wanted && cache->barn_full < BARN_BLOCKS * BARN_BLOCK_CELLS)
		sim_fail("%s, size %u: only %zu sheaves, of %zu", when, cache->slab.size, sheaves,
			 wanted);
}

static int limits(void *data)
{
	static const unsigned int sizes[] = {16, 64, 256, 1024, 4096, 65536};
	const struct sim_config *config = data;

	sim_start(config);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		void *object;

		s = new_cache(sizes[i]);
		check_limits(1, "new");
		for (unsigned int cpu = 0; cpu < config->cpus; cpu++) {
			sim_go_to(cpu);
			object = kmem_cache_alloc(s, GFP_KERNEL);
			kmem_cache_free(s, object);
			sheaf_hand_over(&s->sheaf, sheaf_new(&s->sheaf));
		}
		check_limits(config->cpus / config->nodes, "used by all");
		for (int k = 0; k < BUSY; k++)
			sheaf_see_volume(&s->sheaf);
		check_limits(config->cpus / config->nodes, "busy");
		kmem_cache_destroy(s);
	}
	return 0;
}

/* --- other CPUs' shards ----------------------------------------------------------------------- */

static unsigned int used[OS_MAX_ROWS], nr_used;

/* Return some sheaf of the barn, with the next search on this CPU. */
static struct sheaf *search_once(void)
{
	struct barn_cell cell;
	uint64_t before = sim_steps();
	struct sheaf *full = barn_begin_full(&s->sheaf, os_node(), &cell);

	if (sim_steps() - before > MOST_STEPS)
		sim_fail("a search took %llu steps", (unsigned long long)(sim_steps() - before));
	if (full)
		barn_finish(&s->sheaf, &cell, NULL);
	return full;
}

static void put(unsigned int cpu, struct sheaf *full)
{
	struct sheaf *displaced;

	sim_go_to(cpu);
	if (!barn_put_full(&s->sheaf, os_node(), full, &displaced) || displaced)
		sim_fail("no room in an empty barn");
}

static bool same_node(unsigned int one, unsigned int other)
{
	return os.node_of_row[one] == os.node_of_row[other];
}

/* Twice as many searches as there are CPUs and parts of blocks see all of the node twice, even with
 * wrong hints. */
static void find_from(unsigned int from, unsigned int by, struct sheaf *full, bool found_none)
{
	struct sheaf *found = NULL;

	put(from, full);
	s->sheaf.barns[os.node_of_row[by]]->found_none[BARN_FULL_SHEAF] = found_none;
	sim_go_to(by);
	for (unsigned int i = 0; i < 2 * (nr_used + BARN_PARTS) + 2 && !found; i++)
		found = search_once();
	if (found != (same_node(from, by) ? full : NULL))
		sim_fail("a sheaf in CPU %u's shard, looked for by CPU %u: %s", from, by,
			 found ? "found" : "not found");
	sim_go_to(from);
	if (!found && search_once() != full)
		sim_fail("a sheaf got lost");
}

static struct sheaf *new_full(void)
{
	struct sheaf *full = sheaf_new(&s->sheaf);

	if (!full)
		sim_fail("no memory");
	full->size = full->capacity;
	return full;
}

static void use_shard(unsigned int cpu, struct sheaf *full)
{
	used[nr_used++] = cpu;
	put(cpu, full);
	if (search_once() != full)
		sim_fail("CPU %u does not find its own sheaf", cpu);
}

static void find_all(unsigned int fibre, void *data)
{
	const struct sim_config *config = data;
	struct sheaf *full = new_full();

	(void)fibre;
	for (unsigned int cpu = 0; cpu < config->cpus; cpu++)
		if (sim_below(4) == 0)
			use_shard(cpu, full);
	for (int i = 0; i < 400 && nr_used; i++) {
		/* From here on shards have no room, but the blocks of their nodes. */
		if (i == 300)
			kmem_cache_set_barn(s, 1, 1);
		find_from(used[sim_below(nr_used)], used[sim_below(nr_used)], full, i % 2);
	}
	sheaf_set_size(full, 0);
	sheaf_release(&s->sheaf, full);
}

static int find(void *data)
{
	sim_start(data);
	s = new_cache(64);
	sim_run(1, find_all, data);
	return 0;
}

/* By the caches that CPUs share, and in both directions. */
static void find_nearest(unsigned int fibre, void *unused)
{
	static const struct {
		unsigned int by, near, far;
	} cases[] = {{9, 8, 12}, {9, 11, 5}, {8, 11, 40}, {11, 8, 12}, {0, 3, 4}, {47, 44, 43}};
	struct sheaf *near = new_full(), *far = new_full();

	(void)fibre, (void)unused;
	for (unsigned int cpu = 0; cpu < os.nr_cpus; cpu++)
		use_shard(cpu, near);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		put(cases[i].far, far);
		put(cases[i].near, near);
		sim_go_to(cases[i].by);
		if (search_once())
			sim_fail("CPU %u takes a sheaf when it sees it first", cases[i].by);
		if (search_once() != near)
			sim_fail("CPU %u does not find CPU %u's sheaf first", cases[i].by,
				 cases[i].near);
		sim_go_to(cases[i].far);
		if (search_once() != far)
			sim_fail("a sheaf got lost");
	}
}

static int nearest(void *data)
{
	sim_start(data);
	s = new_cache(64);
	sim_run(1, find_nearest, NULL);
	return 0;
}

/*
 * All CPUs have used the barn, which has no sheaf of this kind. When searches have seen that, each
 * further one looks at this CPU's shard and at one place.
 */
static void find_none(bool full)
{
	uint64_t most = 0;

	for (unsigned int i = 0; i < 2 * nr_used; i++) {
		struct barn_cell cell;
		uint64_t before = sim_steps();

		if (full ? barn_begin_full(&s->sheaf, os_node(), &cell)
			 : barn_begin_empty(&s->sheaf, os_node(), NULL, &cell))
			sim_fail("a sheaf in an empty barn");
		if (i >= nr_used && sim_steps() - before > most)
			most = sim_steps() - before;
	}
	if (most > NONE_STEPS)
		sim_fail("a search for no %s sheaf took %llu steps", full ? "full" : "empty",
			 (unsigned long long)most);
}

static void find_none_of_both(unsigned int fibre, void *unused)
{
	struct sheaf *full = new_full();

	(void)fibre, (void)unused;
	for (unsigned int cpu = 0; cpu < os.nr_cpus; cpu++)
		use_shard(cpu, full);
	find_none(true);
	find_none(false);
	sheaf_set_size(full, 0);
	sheaf_release(&s->sheaf, full);
}

static int none(void *data)
{
	sim_start(data);
	s = new_cache(64);
	sim_run(1, find_none_of_both, NULL);
	return 0;
}

/* --- other nodes ------------------------------------------------------------------------------ */

static void put_anywhere(struct sheaf *sheaf, unsigned int node)
{
	struct sheaf *displaced = NULL;

	if (!sheaf->size ? !barn_put_empty(&s->sheaf, sheaf)
			 : !barn_put_full(&s->sheaf, node, sheaf, &displaced))
		displaced = sheaf;
	if (displaced) {
		sheaf_set_size(displaced, 0);
		sheaf_release(&s->sheaf, displaced);
	}
}

/* Full and empty sheaves go from any CPU to any node and back: no hint of one node's barn may lead
 * into another one, which has more or fewer CPUs. */
static void trade(unsigned int fibre, void *data)
{
	const struct sim_config *config = data;
	uint16_t place = 0; /* of the last search, on whichever node */

	(void)fibre;
	for (int i = 0; i < 3000; i++) {
		unsigned int node = sim_below(config->nodes);
		struct barn_cell cell;
		struct sheaf *sheaf;

		sim_go_to(sim_below(config->cpus));
		switch (sim_below(5)) {
		case 0:
			put_anywhere(new_full(), node);
			continue;
		case 1:
			sheaf = sheaf_new(&s->sheaf);
			put_anywhere(sheaf, node);
			continue;
		case 2:
			sheaf = barn_begin_full(&s->sheaf, os_node(), &cell);
			break;
		case 3:
			sheaf = barn_begin_empty(&s->sheaf, os_node(), NULL, &cell);
			break;
		default:
			sheaf = barn_begin_empty(&s->sheaf, node, &place, &cell);
		}
		if (!sheaf)
			continue;
		barn_finish(&s->sheaf, &cell, NULL);
		sheaf_set_size(sheaf, 0);
		sheaf_release(&s->sheaf, sheaf);
	}
}

static int nodes(void *data)
{
	sim_start(data);
	s = new_cache(64);
	sim_run(1, trade, data);
	return 0;
}

/* The CPUs of one node bring sheaves home to another one: not all to the same line. */
static void bring_home(unsigned int fibre, void *data)
{
	const struct sim_config *config = data;
	struct sheaf *own = new_full();
	uint32_t seen = 0;

	(void)fibre;
	for (unsigned int cpu = 0; cpu < config->cpus; cpu++)
		use_shard(cpu, own);
	put(0, own);
	for (unsigned int cpu = 0; cpu < config->cpus; cpu++) {
		if (os.node_of_row[cpu] == 0)
			continue;
		sim_go_to(cpu);
		first_part = BARN_PARTS;
		put_anywhere(new_full(), 0);
		seen |= 1u << first_part;
	}
	if (seen != (1u << BARN_PARTS) - 1)
		sim_fail("CPUs of other nodes begin at these parts of the blocks: 0x%x", seen);
}

static int spread(void *data)
{
	sim_start(data);
	s = new_cache(64);
	sim_run(1, bring_home, data);
	return 0;
}

/* Objects of a node whose CPUs do not use the cache: no sheaf with them waits there. */
static int unused_node(void *data)
{
	static void *objects[OWN];

	sim_start(data);
	s = new_cache(64);
	sim_go_to(0);
	for (int round = 0; round < 4; round++) {
		for (unsigned int i = 0; i < OWN; i++)
			objects[i] = kmem_cache_alloc_node(s, GFP_KERNEL, 1);
		for (unsigned int i = 0; i < OWN; i++)
			kmem_cache_free(s, objects[i]);
	}
	if (s->sheaf.barns[1])
		sim_fail("sheaves wait where no CPU looks for them");
	return 0;
}

static unsigned int take_one(void **objects)
{
	objects[0] = kmem_cache_alloc(s, GFP_NOWAIT | __GFP_NOWARN);
	return objects[0] != NULL;
}

static unsigned int take_two(void **objects)
{
	return (unsigned int)kmem_cache_alloc_bulk(s, GFP_NOWAIT | __GFP_NOWARN, 2, objects);
}

static unsigned int take_nolock(void **objects)
{
	objects[0] = kmem_cache_alloc_nolock(s, __GFP_NOWARN);
	return objects[0] != NULL;
}

/* Without memory, a CPU gets what another one leaves in the barn, with the first call. */
static int take_last(const struct sim_config *config, unsigned int (*take)(void **objects))
{
	static void *objects[LITTLE / 64 + 2], *of_other[FEW];
	struct sim_config little = *config;
	unsigned int full = 0;

	little.memory = LITTLE;
	sim_start(&little);
	sim_faults(true);
	s = new_cache(64);
	sim_go_to(1);
	for (unsigned int i = 0; i < FEW; i++)
		take_one(&of_other[i]);
	sim_go_to(0);
	for (unsigned int n = 0, got; (got = take_one(&objects[n])) != 0;)
		n += got;
	sim_go_to(1);
	for (unsigned int i = 0; i < FEW; i++)
		kmem_cache_free(s, of_other[i]);
	sim_go_to(0);
	while (take(objects) != 0)
		;
	barn_for_each_cell (&s->sheaf, cell)
		full += (*cell & BARN_FULL) != 0;
	if (full)
		sim_fail("%u full sheaves are in the barn, and no call gets them", full);
	return 0;
}

static int last_objects(void *data)
{
	return take_last(data, take_one);
}

static int last_in_bulk(void *data)
{
	return take_last(data, take_two);
}

static int last_nolock(void *data)
{
	return take_last(data, take_nolock);
}

/* --- bursts ----------------------------------------------------------------------------------- */

static struct pair {
	void *objects[RING];
	unsigned int bursts; /* handed over */
	bool full;
} pairs[MOST_CPUS / 2];
static unsigned int nr_warm;

static void produce(struct pair *pair)
{
	for (unsigned int burst = 0; burst < BURSTS; burst++) {
		while (pair->full)
			os_sleep_briefly();
		if (burst == WARM && ++nr_warm == 1)
			slabs_taken = slabs_given = from_others = from_afar = 0;
		for (unsigned int i = 0; i < RING; i++) {
			pair->objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
			if (!pair->objects[i])
				sim_fail("no memory");
		}
		pair->full = true;
	}
}

static void consume(struct pair *pair)
{
	for (unsigned int burst = 0; burst < BURSTS; burst++) {
		while (!pair->full)
			os_sleep_briefly();
		for (unsigned int i = 0; i < RING; i++)
			kmem_cache_free(s, pair->objects[i]);
		pair->full = false;
	}
}

static void work(unsigned int cpu, unsigned int pair, bool produces)
{
	sim_go_to(cpu);
	if (produces)
		produce(&pairs[pair]);
	else
		consume(&pairs[pair]);
}

/* A CPU each: on the first half of a node's producers, on the other half consumers. */
static void burst_fibre(unsigned int fibre, void *data)
{
	const struct sim_config *config = data;
	unsigned int of_node = config->cpus / config->nodes, nr_pairs = of_node / 2;
	unsigned int node = fibre / of_node, place = fibre % of_node;

	work(os_cpu_at(node, place), node * nr_pairs + place % nr_pairs, place < nr_pairs);
}

/* Pass objects, in pairs of CPUs; returns how many. */
static uint64_t pass(void *data, const char *how, void (*body)(unsigned int fibre, void *data))
{
	const struct sim_config *config = data;
	uint64_t objects = (uint64_t)(BURSTS - WARM) * RING * (config->cpus / 2);

	sim_start(config);
	s = new_cache(64);
	sim_run(config->cpus, body, data);
	printf("%u CPUs, %u nodes, %s: of %llu objects %llu came from slabs and %llu went there; "
	       "%llu sheaves came from other CPUs' shards, %llu of them from behind other caches\n",
	       config->cpus, config->nodes, how, (unsigned long long)objects,
	       (unsigned long long)slabs_taken, (unsigned long long)slabs_given,
	       (unsigned long long)from_others, (unsigned long long)from_afar);
	fflush(stdout);
	/*
	 * Few: what more sheaves in more places hold, until they all have theirs. Of eight seeds,
	 * the worst has 5 % where eight CPUs pass bursts.
	 */
	if ((slabs_taken + slabs_given) * 100 > 6 * objects)
		sim_fail("too many from and to slabs");
	return objects;
}

static int bursts(void *data)
{
	pass(data, "bursts", burst_fibre);
	return 0;
}

/* One CPU of each pair allocates and its neighbour frees: what they need is behind their cache. */
static void neighbour_fibre(unsigned int fibre, void *data)
{
	(void)data;
	work(fibre, fibre / 2, fibre % 2 == 0);
}

static int neighbours(void *data)
{
	uint64_t objects = pass(data, "neighbours", neighbour_fibre);

	/* At most a third of them: of ten seeds, the worst has a fifth more than a quarter. */
	if (from_afar * sheaf_capacity(&s->sheaf) * 3 > objects)
		sim_fail("too many from behind other caches");
	return 0;
}

/* The two CPUs of each pair are on two nodes: objects go home by the sheaf. */
static void across_fibre(unsigned int fibre, void *data)
{
	(void)data;
	work(os_cpu_at(fibre % 2, fibre / 2), fibre / 2, fibre % 2 == 0);
}

static int across(void *data)
{
	uint64_t objects = pass(data, "across nodes", across_fibre);

	/* More empty ones follow where one was. Without this hint it is a quarter on 48 CPUs; the
	 * rest are new sheaves. Of twelve seeds, the worst has 38 % where it is four pairs. */
	if (from_others * sheaf_capacity(&s->sheaf) * 3 < objects)
		sim_fail("less than a third of the sheaves were exchanged");
	return 0;
}

/* --- own batches ------------------------------------------------------------------------------ */

static void own_batch(unsigned int cpu)
{
	static void *objects[MOST_CPUS][OWN];

	for (unsigned int i = 0; i < OWN; i++) {
		objects[cpu][i] = kmem_cache_alloc(s, GFP_KERNEL);
		if (!objects[cpu][i])
			sim_fail("no memory");
	}
	for (unsigned int i = 0; i < OWN; i++)
		kmem_cache_free(s, objects[cpu][i]);
}

static void own_fibre(unsigned int fibre, void *data)
{
	const struct sim_config *config = data;

	sim_go_to(fibre);
	for (unsigned int round = 0; round < OWN_ROUNDS; round++) {
		if (round == OWN_ROUNDS / 2 && ++nr_warm == config->cpus)
			slabs_taken = slabs_given = from_others = 0;
		own_batch(fibre);
	}
}

/* The first batches of each CPU run alone: then all together have little more than one needs. */
static int own(void *data)
{
	const struct sim_config *config = data;

	sim_start(config);
	s = new_cache(64);
	for (unsigned int cpu = 0; cpu < config->cpus; cpu++) {
		sim_go_to(cpu);
		own_batch(cpu);
		own_batch(cpu);
	}
	sim_run(config->cpus, own_fibre, data);
	printf("%u CPUs, %u nodes, own batches of %u: %llu sheaves came from other CPUs' shards, "
	       "%llu objects from slabs\n",
	       config->cpus, config->nodes, OWN, (unsigned long long)from_others,
	       (unsigned long long)slabs_taken);
	fflush(stdout);
	/* One CPU in eight may still lack a sheaf: of ten seeds, one has one such CPU of 48. */
	if (from_others || slabs_given ||
	    slabs_taken > sheaf_capacity(&s->sheaf) * config->cpus / 8)
		sim_fail("CPUs that free what they allocated need nothing of others");
	return 0;
}

/* ---------------------------------------------------------------------------------------------- */

static int run(int (*body)(void *data), unsigned int cpus, unsigned int nodes, const char *options)
{
	/* No CPU is idle for long while the others take their turns. */
	struct sim_config config = {.seed = 1,
				    .step_ns = 10,
				    .cpus = cpus,
				    .nodes = nodes,
				    .backend = OS_BACKEND_RSEQ,
				    .options = options,
				    .switching = SIM_ALWAYS / 64,
				    .silent = true,
				    .max_steps = UINT64_MAX};
	uint64_t hash;

	return sim_in_child(body, &config, &hash) != 0;
}

int main(void)
{
	static const unsigned int machines[][2] = {{1, 1},   {2, 1},	{4, 1},	 {8, 1},
						   {8, 2},   {48, 1},	{64, 2}, {384, 1},
						   {384, 8}, {4096, 64}};
	static const unsigned int uneven[][2] = {{3, 2}, {5, 2}, {4, 3}, {7, 3}, {11, 4}};
	int failed = 0;

	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
		unsigned int cpus = machines[i][0], nodes = machines[i][1];

		failed += run(limits, cpus, nodes, NULL);
		failed += run(find, cpus, nodes, NULL);
	}
	failed += run(find, 240, 1, "index=mm_cid");
	failed += run(nearest, 48, 1, NULL);
	failed += run(nearest, 48, 1, "index=mm_cid");
	failed += run(nearest, 48, 2, NULL);
	failed += run(none, 36, 1, NULL);
	failed += run(none, 384, 1, NULL);
	for (size_t i = 0; i < sizeof(uneven) / sizeof(uneven[0]); i++)
		failed += run(nodes, uneven[i][0], uneven[i][1], NULL);
	failed += run(spread, 48, 2, NULL);
	failed += run(spread, 48, 4, NULL);
	failed += run(unused_node, 4, 2, NULL);
	failed += run(last_objects, 2, 1, NULL);
	failed += run(last_in_bulk, 2, 1, NULL);
	failed += run(last_nolock, 2, 1, NULL);
	/* The bound of all sheaves is not what this is about; by default, 48 CPUs come near it. */
	failed += run(bursts, 8, 1, "sheaf_budget=16");
	failed += run(bursts, 48, 1, "sheaf_budget=16");
	failed += run(bursts, 48, 1, "sheaf_budget=16;index=mm_cid");
	failed += run(bursts, 8, 2, "sheaf_budget=16");
	failed += run(bursts, 48, 2, "sheaf_budget=16");
	failed += run(neighbours, 8, 1, NULL);
	failed += run(neighbours, 48, 1, NULL);
	failed += run(across, 8, 2, NULL);
	failed += run(across, 48, 2, NULL);
	failed += run(own, 8, 1, NULL);
	failed += run(own, 48, 1, NULL);
	failed += run(own, 48, 2, NULL);
	return failed != 0;
}
