/* SPDX-License-Identifier: MIT */
/*
 * Groups (group/group.h): on any schedule, with sections aborted at each step, only charges that
 * must not fail exceed a hard limit, and after the storm the bytes of each group are those of its
 * objects.
 *
 *   groups [--seed N]
 */
#include <sheaf/group.h>
#include <sheaf/rcu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/account.h"
#include "os/machine.h"
#include "sim/kit/readers.h"
#include "sim/sim.h"

enum {
	SEEDS = 300,
	FIBRES = 6,
	ROUNDS = 60,
	HELD = 8,
	GROUPS = 4,
	SIZE = 200,
	BULK = 5,
};

static struct kmem_cache *all, *some;
static struct kmem_group *tree[GROUPS];
static void *shared[HELD];    /* from fibre to fibre */
static size_t limit, forcing; /* bytes that are being charged beyond limits */
static bool may_reclaim;

static void check_limits(void)
{
	for (int i = 0; i < GROUPS; i++)
		if (tree[i]->hard != GROUP_NO_LIMIT &&
		    tree[i]->usage > tree[i]->hard + tree[i]->forced + forcing)
			sim_fail("group %d has %zu bytes, and may have %zu", i,
				 (size_t)tree[i]->usage, (size_t)tree[i]->hard);
}

static gfp_t flags(void)
{
	return may_reclaim && sim_below(2) ? GFP_KERNEL : GFP_NOWAIT;
}

/* An object of a prefilled sheaf is charged whatever the limits are, and even without memory. */
static void *take_prefilled(struct kmem_cache *s, gfp_t account)
{
	struct slab_sheaf *sheaf = kmem_cache_prefill_sheaf(s, flags() | account, BULK);
	uint32_t payer = os_current_group()->own;
	void *object;

	if (!sheaf)
		return NULL;
	if (sim_below(2) && kmem_cache_refill_sheaf(s, flags() | account, &sheaf, 2 * BULK) &&
	    kmem_cache_sheaf_size(sheaf) < BULK)
		sim_fail("a refill has lost objects");
	forcing += s->sheaf.slab.size;
	object = kmem_cache_alloc_from_sheaf(s, GFP_NOWAIT | account, sheaf);
	forcing -= s->sheaf.slab.size;
	if (!object)
		sim_fail("a prefilled sheaf has no object");
	if (payer &&
	    (!owner_at(&s->sheaf.slab, object) || *owner_at(&s->sheaf.slab, object) != payer))
		sim_fail("an object of a prefilled sheaf is not charged");
	kmem_cache_return_sheaf(s, flags(), sheaf);
	return object;
}

static void *take(void)
{
	void *objects[BULK];

	switch (sim_below(7)) {
	case 5:
		return take_prefilled(all, 0);
	case 6:
		return take_prefilled(some, __GFP_ACCOUNT);
	case 0:
		return kmem_cache_alloc(some, flags() | __GFP_ACCOUNT);
	case 1:
		return kmem_cache_alloc(some, flags());
	case 2:
		if (!kmem_cache_alloc_bulk(all, flags(), BULK, objects))
			return NULL;
		kmem_cache_free_bulk(all, BULK - 1, objects + 1);
		return objects[0];
	case 3:
		return kmem_cache_alloc_nolock(all, flags());
	default:
		return kmem_cache_alloc(all, flags());
	}
}

static void give(void *object)
{
	if (!object)
		return;
	switch (sim_below(6)) {
	case 0:
	case 1:
		kfree_nolock(object);
		break;
	case 2:
		/* Its first words are for the library meanwhile: that takes no memory. */
		__kvfree_rcu(object, 0);
		break;
	default:
		kfree(object);
	}
}

/* A group that ends before its object. */
static void *brief_group(void)
{
	struct kmem_group *g = kmem_group_create("brief", tree[sim_below(GROUPS)], NULL);
	void *object;

	if (!g)
		return NULL;
	object = kmem_cache_alloc_charged(all, flags(), g);
	kmem_group_put(g);
	return object;
}

static void use(unsigned int fibre, void *unused)
{
	void *held[HELD] = {NULL};

	(void)unused;
	for (int round = 0; round < ROUNDS; round++) {
		unsigned int at = sim_below(HELD);
		bool reads = !sim_below(3);

		if (reads)
			readers_enter(fibre);
		else
			readers_pass();

		if (!sim_below(4))
			kmem_group_restore_current(
				kmem_group_get(sim_below(8) ? tree[sim_below(GROUPS)] : NULL));
		if (!sim_below(3))
			held[at] = os_exchange(&shared[at], held[at]);
		if (held[at]) {
			give(held[at]);
			held[at] = NULL;
		} else {
			held[at] = sim_below(6) ? take() : brief_group();
		}
		if (!sim_below(40))
			kmem_cache_shrink(sim_below(2) ? all : some);
		if (!sim_below(6))
			stock_drain(tree[sim_below(GROUPS)]);
		if (reads)
			readers_leave(fibre);
		check_limits();
	}
	kmem_group_restore_current(NULL);
	for (int i = 0; i < HELD; i++)
		give(held[i]);
}

/* Stocks alone: most steps are in their sections. The first fibre drains them all the time. */
static void charge(unsigned int fibre, void *data)
{
	size_t *bytes = data;

	for (int round = 0; round < 10 * ROUNDS; round++) {
		unsigned int at = sim_below(GROUPS);

		if (!fibre) {
			stock_drain(&groups.root);
		} else if (sim_below(2) && !stock_charge(tree[at]->number, SIZE, GROUP_TRY)) {
			os_fetch_add(&bytes[at], SIZE);
		} else if (os_load_relaxed(&bytes[at]) > (size_t)SIZE * FIBRES) {
			os_fetch_sub(&bytes[at], SIZE);
			stock_uncharge(tree[at]->number, SIZE);
		}
	}
}

static void look_at_nothing(void *data, struct kmem_group *g)
{
	(void)data, (void)g;
}

/* The root's usage, of its groups now. */
static uint64_t in_all(void)
{
	group_for_each(look_at_nothing, NULL);
	return groups.root.usage;
}

static void charges(void)
{
	size_t bytes[GROUPS] = {0}, total = 0;
	uint64_t forced[GROUPS];

	for (int i = 0; i < GROUPS; i++)
		forced[i] = tree[i]->forced;
	sim_run(FIBRES, charge, bytes);
	sim_faults(false);
	stock_drain(&groups.root);
	for (int i = 0; i < GROUPS; i++) {
		if (tree[i]->forced != forced[i])
			sim_fail("charges that may fail exceed the limit of group %d", i);
		total += bytes[i];
		group_uncharge(tree[i], bytes[i]);
	}
	if (in_all()) /* GROUP-G1 */
		sim_fail("%zu bytes are charged, %zd too many", total, (ssize_t)groups.root.usage);
	sim_faults(true);
}

static int storm(void *data)
{
	struct kmem_group_args args = {.hard_limit = 0};

	sim_start(data);
	readers_register();
	limit = 12 * (size_t)SIZE << sim_below(12);
	may_reclaim = sim_below(2);
	all = kmem_cache_create("all", SIZE, NULL, SLAB_ACCOUNT | SLAB_NO_MERGE);
	some = kmem_cache_create("some", SIZE + 8, NULL, SLAB_NO_MERGE);
	if (!all || !some)
		sim_fail("no memory");
	for (int i = 0; i < GROUPS; i++) {
		args.hard_limit = i % 3 == 2 ? 0 : limit << !i;
		tree[i] = kmem_group_create("one", i ? tree[(i - 1) / 2] : NULL, &args);
		if (!tree[i])
			sim_fail("no group");
	}
	sim_faults(true);
	charges();
	sim_run(FIBRES, use, NULL);
	sim_faults(false);
	if (kmem_group_verify())
		sim_fail("groups and objects differ");
	for (int i = 0; i < HELD; i++)
		kfree(shared[i]);
	if (kmem_group_verify())
		sim_fail("groups and objects differ after the last frees");
	kvfree_rcu_barrier();
	if (kmem_group_verify() || groups.root.usage)
		sim_fail("groups and objects differ after the last grace period");
	for (int i = GROUPS - 1; i >= 0; i--)
		kmem_group_put(tree[i]);
	if (kmem_group_verify() || kmem_cache_verify(all) || kmem_cache_verify(some))
		sim_fail("a fault at the end");
	return groups.nr != 0;
}

enum {
	MANY_CPUS = 64,
	MANY_GROUPS = STOCKS
};

/* Groups that are created together have different stocks, and one drain finds all of them. */
static int many_stocks(void *data)
{
	static struct kmem_group *g[MANY_GROUPS];
	uint64_t each = STOCK_BATCH + SIZE;

	sim_start(data);
	for (int i = 0; i < MANY_GROUPS; i++) {
		g[i] = kmem_group_create("one", NULL, NULL);
		if (!g[i])
			sim_fail("no group");
	}
	for (unsigned int cpu = 0; cpu < MANY_CPUS; cpu++) {
		sim_go_to(cpu);
		for (int i = 0; i < MANY_GROUPS; i++)
			if (stock_charge(g[i]->number, SIZE, GROUP_TRY))
				sim_fail("a limit");
		for (int i = 0; i < MANY_GROUPS; i++)
			stock_uncharge(g[i]->number, SIZE);
	}
	if (stock_bytes(g[0]) != MANY_CPUS * each ||
	    stock_bytes(&groups.root) != MANY_GROUPS * MANY_CPUS * each)
		sim_fail("groups share stocks");
	stock_drain(g[0]);
	if (stock_bytes(g[0]) || g[0]->usage || stock_bytes(g[1]) != MANY_CPUS * each)
		sim_fail("the wrong stocks were returned");
	stock_drain(&groups.root);
	/* STOCK-T3: the drain has looked at each row with a word. */
	if (stock_bytes(&groups.root) || in_all())
		sim_fail("%zu bytes are left in stocks", (size_t)stock_bytes(&groups.root));
	return 0;
}

static int run_many_stocks(enum os_backend backend)
{
	struct sim_config config = {.cpus = MANY_CPUS, .nodes = 1, .backend = backend, .seed = 1};
	uint64_t hash;
	int failed = sim_in_child(many_stocks, &config, &hash);

	if (failed)
		printf("FAILED: many stocks, backend %d\n", backend);
	return failed != 0;
}

int main(int argc, char **argv)
{
	struct sim_config config = {.cpus = 4, .silent = true, .max_steps = UINT64_C(1) << 26};
	uint64_t hash,
		only = argc > 2 && !strcmp(argv[1], "--seed") ? strtoull(argv[2], NULL, 10) : 0;
	int failed = run_many_stocks(OS_BACKEND_RSEQ) + run_many_stocks(OS_BACKEND_TRYLOCK);

	for (uint64_t seed = only ? only : 1; seed <= (only ? only : SEEDS); seed++) {
		config.seed = seed;
		config.cpus = 1u << seed % 4;
		config.nodes = config.cpus > 1 ? 1 + seed % 2 : 1;
		config.backend = seed % 3 ? OS_BACKEND_RSEQ : OS_BACKEND_TRYLOCK;
		config.options = seed % 5 == 4 ? "slab_debug=FZP" : "slab_max_order=0";
		config.switching = seed % 4 ? SIM_ALWAYS / 2 : SIM_ALWAYS / 32;
		config.migration = seed % 2 ? SIM_ALWAYS / 64 : 0;
		config.signal = seed % 7 ? SIM_ALWAYS / 16 : 0;
		config.stall = seed % 9 ? SIM_ALWAYS / 128 : 0;
		config.stall_steps = 400;
		config.no_memory = seed % 6 ? 0 : SIM_ALWAYS / 16;
		config.membarrier_refused = seed % 8 ? 0 : SIM_ALWAYS / 4;
		if (sim_in_child(storm, &config, &hash)) {
			printf("FAILED; to repeat: %s --seed %llu\n", argv[0],
			       (unsigned long long)seed);
			failed++;
		}
	}
	return failed != 0;
}
