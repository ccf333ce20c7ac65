/* SPDX-License-Identifier: MIT */
/*
 * No GFP_KERNEL allocation gets NULL that a drain of everything, at a moment of the call, would
 * have served (RECLAIM-R2). At a hard limit, or at the limit of a cache, some fibres
 * allocate until they get NULL, and others free in every way there is: to sheaves, slabs, nodes,
 * without waiting, after grace periods; objects of owners, and blocks; and they shrink, trim
 * and validate beside that.
 *
 * Each NULL is checked against a model. An object is busy if it was in use, or a call with it was
 * in progress, at any time since the failed call began. Then no slab without busy objects may
 * exist, in any cache from which no other fibre allocated meanwhile; in the failed call's own
 * cache, no object that is not busy. But a call that charges may have made a slab, and then found
 * no memory for the slab's owners: its object is free again, and objects that returned to other
 * slabs meanwhile did not help it. When everything is quiet, no free page is held, either.
 *
 * And a failure costs little if nothing was freed since the last one, however many caches there
 * are.
 *
 *   reclaim [SEEDS [FIRST]]
 */
#include <sheaf/debug.h>
#include <sheaf/group.h>
#include <sheaf/kmalloc.h>
#include <sheaf/limit.h>
#include <sheaf/trim.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "kit/by_hand.h"
#include "page/limit.h"
#include "page/map_kept.h"
#include "page/page.h"
#include "sim/kit/quiet.h"
#include "sim/sim.h"

enum {
	QUICK_SEEDS = 50,
	MOST_FAILED = 5,
	ROUNDS = 4,
	OPERATIONS = 60, /* of a fibre in a round */
	TOGETHER = 3,	 /* while nothing is freed, */
	REPEATS = 20,	 /* so often */
	MOST = 4096,	 /* objects that are known */
	ROOM = 40,	 /* pages below the hard limit */
	MOST_NODES = 2,
	MOST_PAGES = 1 << 16,
	BLOCK = 5 << 19, /* a mapping */
};

/* The first ones are allocated from while others free; all are filled before. */
enum {
	ALLOCATED = 2,
	CHARGED = 5,
	NR_CACHES
};

static struct {
	const char *name;
	size_t size;
	slab_flags_t flags;
} const kinds[NR_CACHES] = {
	{"sheaves", 512, 0}, {"slabs", 1024, SLAB_NO_SHEAVES}, {"freed", 512, 0},
	{"few", 2048, 0},    {"alone", 1024, SLAB_NO_SHEAVES}, {"charged", 512, SLAB_ACCOUNT},
};

static struct run {
	struct sim_config config;
	unsigned int fibres, allocating;
	bool own_limit; /* of the first cache; otherwise there is a hard limit */
	bool retires;
	bool together; /* nothing is freed while several reclaim together */
} now;

enum state {
	UNKNOWN,
	LIVE,
	LEAVING, /* a call with it is in progress */
	RETIRED,
	FREED
};

static struct object {
	void *at;
	unsigned int cache;
	enum state state;
	uint64_t when; /* it was freed, or the call began */
} objects[MOST];

static struct kmem_cache *made[NR_CACHES];
static uint64_t clock_now;	      /* counts calls */
static unsigned int begun[NR_CACHES]; /* allocations */
static unsigned int active[NR_CACHES];
static unsigned int calls; /* in progress, of any kind */
static unsigned int nulls, checked;

static struct object *object_at(void *at)
{
	struct object *unknown = NULL;

	for (struct object *object = objects; object < objects + MOST; object++) {
		if (object->at == at)
			return object;
		if (!unknown && object->state == UNKNOWN)
			unknown = object;
	}
	if (!unknown)
		sim_fail("too many objects");
	unknown->at = at;
	return unknown;
}

/* --- the model ------------------------------------------------------------------------------- */

static bool is_busy(const struct object *object, uint64_t since)
{
	return object->state != UNKNOWN && (object->state != FREED || object->when >= since);
}

/* Its number, of all nodes' first MOST_PAGES / MOST_NODES. */
static unsigned int page_of(const void *at)
{
	unsigned int node = page_node(at);
	size_t page = ((size_t)((const char *)at - pages.base) >> OS_PAGE_SHIFT) -
		      ((size_t)node << (pages.range_shift - OS_PAGE_SHIFT));

	if (page >= MOST_PAGES / MOST_NODES)
		sim_fail("too many pages");
	return (unsigned int)page + node * (MOST_PAGES / MOST_NODES);
}

/* What another fibre refills from a cache is not seen, so a cache is left out if one allocated. */
struct window {
	uint64_t since;
	unsigned int begun[NR_CACHES];
	bool others, shared[NR_CACHES];
};

static struct window open_window(void)
{
	struct window window = {.since = clock_now, .others = calls > 0};

	for (unsigned int i = 0; i < NR_CACHES; i++) {
		window.begun[i] = begun[i];
		window.shared[i] = active[i] > 0;
	}
	return window;
}

static void check_cache(unsigned int i, const struct window *window, bool own)
{
	struct slab_cache *cache = &made[i]->sheaf.slab;
	static unsigned char busy[MOST_PAGES];
	unsigned int nr_busy = 0, nr_all = 0, nr_without_owners = 0;
	struct slab *slabs[MOST_NODES];
	size_t n[MOST_NODES];

	/* From here on, no other fibre runs. */
	for (unsigned int node = 0; node < now.config.nodes; node++)
		n[node] = page_slabs(node, &slabs[node]);
	memset(busy, 0, sizeof(busy));
	for (const struct object *object = objects; object < objects + MOST; object++)
		if (object->cache == i && is_busy(object, window->since)) {
			busy[page_of(object->at)] = 1;
			nr_busy++;
		}
	for (unsigned int node = 0; node < now.config.nodes; node++) {
		for (struct slab *slab = slabs[node]; slab < slabs[node] + n[node]; slab++) {
			if (slab->cache != cache || slab->state & SLAB_TAIL)
				continue;
			if (own && i == CHARGED && !busy[page_of(page_address(slab))] &&
			    !nr_without_owners++)
				continue;
			nr_all += slab_order_of(cache, slab->state).objects;
			if (!busy[page_of(page_address(slab))])
				sim_fail("%s: NULL, although no object of slab %p of %s was busy "
					 "(state %#llx, marks %#x)",
					 own ? "its own slab" : "another's slab", (void *)slab,
					 kinds[i].name, (unsigned long long)slab->state,
					 cache->marks);
		}
	}
	checked++;
	if (own && nr_all > nr_busy && !nr_without_owners)
		sim_fail("NULL, although %u of %u objects of %s were busy (marks %#x)", nr_busy,
			 nr_all, kinds[i].name, cache->marks);
}

/* An allocation from this cache returned NULL. */
static void check_null(unsigned int own, const struct window *window)
{
	bool by_limit = own < NR_CACHES && slab_rest(&made[own]->sheaf.slab)->limit;

	nulls++;
	for (unsigned int i = 0; i < NR_CACHES; i++) {
		if ((by_limit && i != own) || window->shared[i] ||
		    begun[i] != window->begun[i] + (i == own))
			continue;
		check_cache(i, window, i == own);
	}
	if (!window->others && calls == 1 && clock_now == window->since + 1 && !by_limit &&
	    (page_usage().dirty || map_kept_bytes()))
		sim_fail("NULL, although %zu bytes of free pages and %zu of mappings are held",
			 page_usage().dirty, map_kept_bytes());
}

/* --- calls ------------------------------------------------------------------------------------ */

static bool allocate(unsigned int i)
{
	struct window window = open_window();
	struct object *object;
	void *at;

	clock_now++;
	calls++;
	begun[i]++;
	active[i]++;
	at = kmem_cache_alloc(made[i], GFP_KERNEL);
	active[i]--;
	if (!at)
		check_null(i, &window);
	calls--;
	if (!at)
		return false;
	object = object_at(at);
	if (object->state == LIVE)
		sim_fail("an object in use is handed out");
	*object = (struct object){.at = at, .cache = i, .state = LIVE};
	return true;
}

/* Any object in use, at the beginning of a run of them, in the order of their addresses. */
static struct object *any_live(void)
{
	unsigned int first = sim_below(MOST);

	for (unsigned int i = 0; i < MOST; i++)
		if (objects[(first + i) % MOST].state == LIVE)
			return &objects[(first + i) % MOST];
	return NULL;
}

/* Some may have been allocated again meanwhile. */
static void left(struct object **which, unsigned int n, uint64_t begun_at, enum state state)
{
	clock_now++;
	for (unsigned int i = 0; i < n; i++)
		if (which[i]->state == LEAVING && which[i]->when == begun_at) {
			which[i]->state = state;
			which[i]->when = clock_now;
		}
}

/* Without a head, an object that cannot be stored for lack of memory is leaked. */
struct retired {
	struct sheaf_rcu_head head;
};

/* All objects of a page, so that its slab becomes empty. */
static void free_page(void)
{
	struct object *first = any_live(), *which[16];
	struct kmem_cache *s;
	void *at[16];
	unsigned int n = 0, way = sim_below(8);
	uint64_t begun_at = ++clock_now;
	bool retires;

	if (!first)
		return;
	for (struct object *object = objects; object < objects + MOST && n < 16; object++)
		if (object->state == LIVE && object->cache == first->cache &&
		    page_of(object->at) == page_of(first->at)) {
			object->state = LEAVING;
			object->when = begun_at;
			at[n] = object->at;
			which[n++] = object;
		}
	s = made[first->cache];
	retires = now.retires && way < 3;
	calls++;
	for (unsigned int i = 0; i < n && way != 7; i++)
		if (retires)
			kfree_rcu((struct retired *)at[i], head);
		else if (way < 5)
			kmem_cache_free(s, at[i]);
		else
			kmem_cache_free_nolock(s, at[i]);
	if (way == 7)
		kmem_cache_free_bulk(s, n, at);
	calls--;
	left(which, n, begun_at, retires ? RETIRED : FREED);
}

/* What was retired before is free afterwards. */
static void pass(void)
{
	uint64_t since = clock_now++;

	if (sim_below(2)) {
		by_hand_pass();
		return;
	}
	kvfree_rcu_barrier();
	for (struct object *object = objects; object < objects + MOST; object++)
		if (object->state == RETIRED && object->when <= since) {
			object->state = FREED;
			object->when = clock_now;
		}
	clock_now++;
}

static void use_block(void)
{
	void *block;

	clock_now++;
	calls++;
	block = kvmalloc(BLOCK, GFP_KERNEL | __GFP_NOWARN);
	kvfree(block);
	calls--;
	clock_now++;
}

static void lend(void)
{
	unsigned int i = 2 + sim_below(2);
	struct slab_sheaf *sheaf;

	clock_now++;
	calls++;
	begun[i]++;
	active[i]++;
	sheaf = kmem_cache_prefill_sheaf(made[i], GFP_NOWAIT, 1 + sim_below(8));
	if (sheaf)
		kmem_cache_return_sheaf(made[i], GFP_NOWAIT, sheaf);
	active[i]--;
	calls--;
	clock_now++;
}

static void free_or_disturb(void)
{
	unsigned int kind = sim_below(32);

	if (kind == 0)
		kmem_cache_shrink(made[sim_below(NR_CACHES)]);
	else if (kind == 1)
		sheaf_trim(0);
	else if (kind == 2)
		use_block();
	else if (kind == 3)
		lend();
	else if (kind == 4)
		kmem_cache_validate(made[sim_below(NR_CACHES)]);
	else if (kind < 9 && now.retires)
		pass();
	else
		free_page();
}

static void use(unsigned int fibre, void *unused)
{
	(void)unused;
	for (unsigned int i = 0; i < (now.together ? TOGETHER : OPERATIONS); i++)
		if (fibre < now.allocating)
			allocate(now.own_limit ? 0 : fibre % ALLOCATED);
		else
			free_or_disturb();
}

/* Until the limit is reached. */
static void fill(unsigned int fibre, void *unused)
{
	(void)fibre, (void)unused;
	for (unsigned int failures = 0; failures < 20;)
		failures += !allocate(now.own_limit ? 0 : sim_below(NR_CACHES));
}

static void free_some(unsigned int fibre, void *unused)
{
	(void)fibre, (void)unused;
	for (unsigned int n = 1 + sim_below(2); n > 0; n--)
		free_page();
	if (now.retires)
		pass();
}

static void free_all(unsigned int fibre, void *unused)
{
	(void)fibre, (void)unused;
	while (any_live())
		free_page();
	if (now.retires)
		kvfree_rcu_barrier();
	for (struct object *object = objects; object < objects + MOST; object++)
		object->state = UNKNOWN;
}

static void make(void)
{
	struct kmem_group *group = kmem_group_create("group", NULL, NULL);

	for (unsigned int i = 0; i < NR_CACHES; i++) {
		struct kmem_cache_args args = {.limit = now.own_limit && i == 0 ? 8 * OS_PAGE : 0,
					       .group = i == CHARGED ? group : NULL};

		made[i] = kmem_cache_create(kinds[i].name, kinds[i].size, &args,
					    kinds[i].flags | SLAB_NO_MERGE);
		if (!made[i])
			sim_fail("no memory");
		/* What each cache needs before its first object. */
		kmem_cache_free(made[i], kmem_cache_alloc(made[i], GFP_KERNEL));
	}
}

static void begin(unsigned int fibre, void *unused)
{
	(void)fibre, (void)unused;
	make();
	use_block();
	if (!now.own_limit)
		sheaf_set_limits(0, (page_limit.held + ROOM) << OS_PAGE_SHIFT);
}

static int run(void *unused)
{
	(void)unused;
	sim_start(&now.config);
	if (now.retires && sheaf_rcu_register(&by_hand_ops))
		return 1;
	sim_run(1, begin, NULL);
	for (int round = 0; round < ROUNDS; round++) {
		sim_run(1, fill, NULL);
		for (int i = 0; now.together && i < REPEATS; i++) {
			sim_run(1, free_some, NULL);
			sim_run(now.allocating, use, NULL);
		}
		if (!now.together)
			sim_run(now.fibres, use, NULL);
		sim_run(1, fill, NULL);
		for (unsigned int i = 0; i < NR_CACHES; i++) {
			quiet_slabs(&made[i]->sheaf.slab);
			quiet_marks(&made[i]->sheaf);
			if (kmem_cache_verify(made[i]))
				sim_fail("cache %u has faults", i);
		}
		sim_run(1, free_all, NULL);
	}
	if (!nulls || !checked)
		sim_fail("%u allocations failed, %u checks", nulls, checked);
	return 0;
}

static struct run run_of_seed(uint64_t seed)
{
	struct run of_seed = {
		.fibres = 2 + seed % 4,
		.allocating = 1 + seed / 2 % 2,
		.own_limit = seed % 5 == 0,
		.retires = seed / 4 % 2,
		.together = seed % 3 == 2,
		.config =
			{
				.seed = seed,
				.cpus = 1 + seed % 4,
				.nodes = seed % 4 == 3 ? 2 : 1,
				.backend = seed % 3 ? OS_BACKEND_RSEQ : OS_BACKEND_TRYLOCK,
				.options = seed % 7 ? "slab_max_order=0"
						    : "slab_max_order=0;slab_debug=Q,alone",
				.switching = SIM_ALWAYS >> (1 + seed % 5),
				.migration = seed % 2 ? SIM_ALWAYS / 64 : 0,
				.signal = SIM_ALWAYS / 256,
				.stall = seed % 3 ? SIM_ALWAYS / 256 : SIM_ALWAYS / 32,
				.stall_steps = 16u << seed % 7,
				.silent = !getenv("LOUD"),
				.max_steps = 50000000,
			},
	};

	if (of_seed.together)
		of_seed.allocating = 2 + seed / 6 % 2;
	return of_seed;
}

/* --- the cost of a failure -------------------------------------------------------------------- */

enum {
	MANY = 300,	  /* caches */
	MOST_STEPS = 600, /* of a failure when nothing was freed since the last one */
	A_CACHE = 200	  /* steps more for a cache in which something was freed */
};

static uint64_t failure(struct kmem_cache *s)
{
	uint64_t before = sim_steps();

	if (kmem_cache_alloc(s, GFP_KERNEL))
		sim_fail("an object beyond the limit");
	return sim_steps() - before;
}

static void bounded(const char *what, uint64_t steps, uint64_t most)
{
	printf("%s: %llu steps\n", what, (unsigned long long)steps);
	fflush(stdout);
	if (steps > most)
		sim_fail("that is too much");
}

static void count_failures(unsigned int fibre, void *unused)
{
	struct kmem_cache_args limited = {.limit = 2 * OS_PAGE};
	struct kmem_cache *many[MANY], *s, *own;
	char name[16];
	void *one;

	(void)fibre, (void)unused;
	for (unsigned int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "many-%u", i);
		many[i] = kmem_cache_create(name, 64, NULL, SLAB_NO_MERGE);
		kmem_cache_free(many[i], kmem_cache_alloc(many[i], GFP_KERNEL));
	}
	if (!kmem_cache_alloc(many[0], GFP_KERNEL) ||
	    !(one = kmem_cache_alloc(many[0], GFP_KERNEL)))
		sim_fail("no memory");
	s = kmem_cache_create("fails", 4096, NULL, SLAB_NO_MERGE);
	own = kmem_cache_create("own", 4096, &limited, SLAB_NO_MERGE);
	while (kmem_cache_alloc(own, GFP_KERNEL))
		;
	bounded("at the cache's limit, many others have free objects", failure(own), MOST_STEPS);
	sheaf_set_limits(0, page_limit.held << OS_PAGE_SHIFT);
	while (kmem_cache_alloc(s, GFP_KERNEL))
		;
	failure(s);
	bounded("at the hard limit, nothing was freed since", failure(s), MOST_STEPS);
	kmem_cache_free(many[0], one);
	bounded("at the hard limit, objects of one cache were freed", failure(s),
		MOST_STEPS + 4 * MANY + A_CACHE);
}

static int cost(void *unused)
{
	(void)unused;
	sim_start(&now.config);
	sim_run(1, count_failures, NULL);
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : QUICK_SEEDS;
	uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1, hash;
	int failed = 0;

	now.config = (struct sim_config){.seed = 1,
					 .cpus = 2,
					 .nodes = 1,
					 .backend = OS_BACKEND_RSEQ,
					 .options = "slab_max_order=0",
					 .silent = true,
					 .max_steps = UINT64_MAX};
	failed += sim_in_child(cost, NULL, &hash) != 0;
	for (uint64_t seed = first; seed < first + seeds && failed < MOST_FAILED; seed++) {
		now = run_of_seed(seed);
		if (sim_in_child(run, NULL, &hash)) {
			fprintf(stderr, "seed %llu failed\n", (unsigned long long)seed);
			failed++;
		}
	}
	printf("%llu seeds, %d failed\n", (unsigned long long)seeds, failed);
	return failed != 0;
}
