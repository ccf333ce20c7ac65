/* SPDX-License-Identifier: MIT */
/* Nodes of the maple tree in the simulator; see maple_nodes.h. */
#include "maple_nodes.h"

#include <sheaf/rcu.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/tree.h"
#include "os/atomic.h"
#include "sim/sim.h"

enum {
	NODES = 1024,
	MOST_HELD = 64
};

enum state {
	UNUSED,
	LIVE,
	RETIRED,
	FREED
};

struct held {
	void *at;
	uint64_t value;
};

static struct maple_node arena[NODES] __attribute__((aligned(NODE_BYTES))), saved_arena[NODES];
static struct nodes {
	unsigned int used;
	enum state state[NODES];
	uint64_t waits_for[NODES]; /* a bit for each reader */
} nodes, saved;
static struct maple_tree saved_tree;
static uint64_t inside; /* readers, a bit each */
static unsigned int running;
static uint32_t touched[NODES]; /* words that the store changes: a bit for each word of a node */
static bool learning;
enum plant planted;
bool nodes_refused;

/* The stores that a planted bug delays, in order. */
static struct held held[MOST_HELD];
static unsigned int nr_held;

/* --- states ---------------------------------------------------------------------------------- */

void nodes_begin(void)
{
	memset(&nodes, 0, sizeof(nodes));
}

void nodes_save(const struct maple_tree *mt)
{
	saved = nodes;
	saved_tree = *mt;
	memcpy(saved_arena, arena, nodes.used * sizeof(arena[0]));
}

void nodes_restore(struct maple_tree *mt)
{
	nodes.used = saved.used;
	memcpy(nodes.state, saved.state, sizeof(nodes.state));
	memcpy(arena, saved_arena, nodes.used * sizeof(arena[0]));
	*mt = saved_tree;
}

unsigned int nodes_left(void)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < nodes.used; i++)
		n += nodes.state[i] == LIVE || nodes.state[i] == RETIRED;
	return n;
}

/* The number of the node that contains this word, or NODES. */
static unsigned int node_with(const void *at)
{
	size_t offset = (uintptr_t)at - (uintptr_t)arena;

	return offset < sizeof(arena) ? (unsigned int)(offset / NODE_BYTES) : NODES;
}

static void set_free(unsigned int i)
{
	nodes.state[i] = FREED;
	memset(&arena[i], 0xdb, NODE_BYTES);
}

void nodes_learn(bool all)
{
	learning = !all;
	memset(touched, all ? 0xff : 0, sizeof(touched));
}

void nodes_learned(void)
{
	learning = false;
}

/* The bit of a word of this node. */
static uint32_t bit_of(const void *at, unsigned int i)
{
	return UINT32_C(1) << ((uintptr_t)at - (uintptr_t)&arena[i]) / sizeof(uint64_t);
}

void fibre_begins(unsigned int fibre)
{
	running = fibre;
}

void reader_enters(void)
{
	inside |= UINT64_C(1) << running;
}

void reader_leaves(void)
{
	inside &= ~(UINT64_C(1) << running);
	for (unsigned int i = 0; i < nodes.used; i++) {
		nodes.waits_for[i] &= inside;
		if (nodes.state[i] == RETIRED && !nodes.waits_for[i])
			set_free(i);
	}
}

/* --- words ----------------------------------------------------------------------------------- */

static void step(enum os_step_kind kind, const void *at)
{
	static const struct os_step steps[] = {[OS_STEP_LOAD] = {OS_STEP_LOAD, NULL},
					       [OS_STEP_STORE] = {OS_STEP_STORE, NULL},
					       [OS_STEP_FENCE] = {OS_STEP_FENCE, NULL}};
	unsigned int fibre = running;

	os_sim_step(&steps[kind], at, at ? sizeof(uint64_t) : 0);
	running = fibre;
}

static void check_alive(const void *at, const char *what)
{
	unsigned int i = node_with(at);

	if (i < NODES && (nodes.state[i] == FREED || nodes.state[i] == UNUSED))
		sim_fail("fibre %u %s word %zu of node %u, which is %s", running, what,
			 ((uintptr_t)at - (uintptr_t)&arena[i]) / sizeof(uint64_t), i,
			 nodes.state[i] == FREED ? "freed" : "not in use");
}

void word_look(const void *at)
{
	unsigned int i = node_with(at);

	if (running != WRITER && (i == NODES || touched[i] & bit_of(at, i)))
		step(OS_STEP_LOAD, at);
	check_alive(at, "loads");
}

static void hold(void *at, uint64_t value)
{
	if (nr_held == MOST_HELD)
		sim_fail("more than %d stores are held back", MOST_HELD);
	held[nr_held++] = (struct held){at, value};
}

static void let_go(void)
{
	while (nr_held) {
		step(OS_STEP_STORE, held[nr_held - 1].at);
		nr_held--;
		*(uint64_t *)held[nr_held].at = held[nr_held].value;
	}
}

void store_ends(void)
{
	let_go();
}

static bool is_meta(const void *at)
{
	unsigned int i = node_with(at);

	return i < NODES && at == &arena[i].meta;
}

static bool is_leaf_pivot(const void *at, uint64_t value)
{
	unsigned int i = node_with(at);

	return i < NODES && at >= (void *)arena[i].range.pivot &&
	       at < (void *)arena[i].range.slot && !is_node((void *)value);
}

/* True if the planted bug makes this store itself. */
static bool stores_otherwise(void *at, uint64_t value)
{
	struct maple_node *node = node_of(value);
	bool publishes = is_node((void *)value) && node_with(node) < NODES;
	struct maple_node filled;

	if (planted == PLANT_NO_DEAD_MARK && is_meta(at) && value & META_DEAD) {
		return true;
	} else if (planted == PLANT_NO_MARK && xa_is_zero((void *)value)) {
		*(uint64_t *)at = 0;
	} else if (planted == PLANT_NO_MOVING && is_meta(at)) {
		*(uint64_t *)at = value & ~META_MOVING;
	} else if ((planted == PLANT_RETIRE_FIRST && publishes) ||
		   (planted == PLANT_PIVOTS_LAST && is_leaf_pivot(at, value))) {
		hold(at, value);
	} else if (planted == PLANT_PUBLISH_FIRST && publishes) {
		filled = *node;
		memset(node, 0, NODE_BYTES);
		*(uint64_t *)at = value;
		step(OS_STEP_STORE, node);
		*node = filled;
	} else {
		return false;
	}
	return true;
}

void word_store(void *at, uint64_t value)
{
	unsigned int i = node_with(at);

	check_alive(at, "stores to");
	if (learning && i < NODES)
		touched[i] |= bit_of(at, i);
	step(OS_STEP_STORE, at);
	if (planted == PLANT_NONE || !stores_otherwise(at, value))
		*(uint64_t *)at = value;
	/* Readers must already see all stores that belong before this one. */
	if (is_node((void *)value))
		step(OS_STEP_FENCE, NULL);
}

/* --- in place of libsheaf --------------------------------------------------------------------- */

void *__kmem_cache_alloc(struct kmem_cache *s, gfp_t gfp)
{
	(void)s, (void)gfp;
	if (nodes_refused)
		return NULL;
	if (nodes.used == NODES)
		sim_fail("a run takes more than %d nodes", NODES);
	nodes.state[nodes.used] = LIVE;
	memset(&arena[nodes.used], 0xab, NODE_BYTES);
	return &arena[nodes.used++];
}

static unsigned int live_node(const void *object, const char *call)
{
	unsigned int i = node_with(object);

	if (i == NODES || nodes.state[i] != LIVE)
		sim_fail("%s: %p is no live node", call, object);
	return i;
}

void __kmem_cache_free(struct kmem_cache *s, void *object)
{
	(void)s;
	set_free(live_node(object, "kmem_cache_free"));
}

/* Its words are 0: programs make the call. */
static uint32_t the_cache[2];
static struct lent {
	struct sheaf_lent begin; /* empty, because every path that takes a node calls this */
	unsigned int n;
} the_sheaf;

struct kmem_cache *__kmem_cache_create_args(const char *name, size_t size,
					    const struct kmem_cache_args *args, size_t args_size,
					    slab_flags_t flags)
{
	(void)name, (void)size, (void)args, (void)args_size, (void)flags;
	return (struct kmem_cache *)&the_cache;
}

void kmem_cache_destroy(struct kmem_cache *s)
{
	(void)s;
	sim_fail("the cache of nodes is given up");
}

int kmem_cache_shrink(struct kmem_cache *s)
{
	(void)s;
	return 0;
}

void kmem_cache_free_rcu(struct kmem_cache *s, void *object)
{
	unsigned int i = live_node(object, "kmem_cache_free_rcu");

	(void)s;
	step(OS_STEP_FENCE, NULL);
	nodes.state[i] = RETIRED;
	nodes.waits_for[i] = inside;
	if (!inside || planted == PLANT_NO_GRACE || planted == PLANT_RETIRE_FIRST)
		set_free(i);
	if (planted == PLANT_RETIRE_FIRST)
		let_go();
}

int kmem_cache_alloc_bulk(struct kmem_cache *s, gfp_t gfp, size_t n, void **objects)
{
	for (size_t i = 0; i < n; i++)
		objects[i] = __kmem_cache_alloc(s, gfp);
	return (int)n;
}

void kmem_cache_free_bulk(struct kmem_cache *s, size_t n, void **objects)
{
	for (size_t i = 0; i < n; i++)
		__kmem_cache_free(s, objects[i]);
}

struct slab_sheaf *kmem_cache_prefill_sheaf(struct kmem_cache *s, gfp_t gfp, unsigned int n)
{
	(void)s, (void)gfp;
	if (nodes_refused)
		return NULL;
	the_sheaf.n = n;
	return (struct slab_sheaf *)&the_sheaf;
}

int kmem_cache_refill_sheaf(struct kmem_cache *s, gfp_t gfp, struct slab_sheaf **sheaf,
			    unsigned int n)
{
	*sheaf = kmem_cache_prefill_sheaf(s, gfp, n);
	return 0;
}

void *__kmem_cache_alloc_from_sheaf(struct kmem_cache *s, gfp_t gfp, struct slab_sheaf *sheaf)
{
	(void)sheaf;
	return the_sheaf.n && the_sheaf.n-- ? __kmem_cache_alloc(s, gfp) : NULL;
}

unsigned int kmem_cache_sheaf_size(struct slab_sheaf *sheaf)
{
	(void)sheaf;
	return the_sheaf.n;
}

void kmem_cache_return_sheaf(struct kmem_cache *s, gfp_t gfp, struct slab_sheaf *sheaf)
{
	(void)s, (void)gfp, (void)sheaf;
}
