/* SPDX-License-Identifier: MIT */
/* slab_strict_numa: each object follows its thread's memory policy. */
#include <sheaf/group.h>
#include <sheaf/slab.h>
#include <string.h>

#include "internal/kit/in_turn.h"
#include "internal/kit/placement.h"
#include "internal/kit/ready.h"
#include "kit/cache.h"
#include "kit/process.h"
#include "kit/unit.h"
#include "page/page.h"

enum {
	NR_OBJECTS = 120
};

#define WEIGHTED_INTERLEAVE 6

static struct kmem_cache *cache;
static void *objects[NR_OBJECTS];
static unsigned int count_of[OS_MAX_NODES]; /* objects of each node */

/* The node whose memory a thread here gets by default. */
static int memory_here(void)
{
	int where = os.memory_of_node[os_node()];

	return where == OS_NO_NODE ? (int)os_node() : where;
}

static void count(void)
{
	memset(count_of, 0, sizeof(count_of));
	for (unsigned int i = 0; i < NR_OBJECTS; i++) {
		objects[i] = kmem_cache_alloc(cache, i % 2 ? GFP_KERNEL : GFP_NOWAIT);
		assert_non_null(objects[i]);
		count_of[page_node(objects[i])]++;
		memset(objects[i], 1, 64);
		assert_true(is_placed_on(page_node(objects[i]), objects[i]));
	}
	for (unsigned int i = 0; i < NR_OBJECTS; i++)
		kmem_cache_free(cache, objects[i]);
}

/* As above, by bulk calls for n objects each; n divides NR_OBJECTS. A call for one object has a
 * path of its own. */
static void count_bulk(unsigned int n)
{
	memset(count_of, 0, sizeof(count_of));
	for (unsigned int i = 0; i < NR_OBJECTS; i += n)
		assert_int_equal(kmem_cache_alloc_bulk(cache, GFP_KERNEL, n, &objects[i]), n);
	for (unsigned int i = 0; i < NR_OBJECTS; i++)
		count_of[page_node(objects[i])]++;
	kmem_cache_free_bulk(cache, NR_OBJECTS, objects);
}

/* Move to the first CPU of the node. */
static bool go_to(unsigned int node)
{
	return os.node[node].n && pin(os_cpu_at(node, 0));
}

static unsigned int large_block_node(void)
{
	void *block = kmalloc(256 << 10, GFP_KERNEL);
	unsigned int node = page_node(block);

	kfree(block);
	return node;
}

static void bound_and_preferred(void **state)
{
	unsigned int tried = 0;

	(void)state;
	for (unsigned int here = 0; here < os.nr_nodes; here++)
		for (unsigned int node = 0; node < os.nr_nodes; node++) {
			if (!has_memory(node) || !go_to(here))
				continue;
			tried += node != here;
			assert_true(set_policy(PLACEMENT_PREFERRED, 1ul << node));
			count();
			assert_int_equal(count_of[node], NR_OBJECTS);
			count_bulk(1);
			assert_int_equal(count_of[node], NR_OBJECTS);
			count_bulk(12);
			assert_int_equal(count_of[node], NR_OBJECTS);
			assert_int_equal(large_block_node(), node);
			assert_true(set_policy(PLACEMENT_BIND, 1ul << node));
			count();
			/* A policy that allows this node's memory changes nothing. */
			assert_int_equal(count_of[memory_here() == (int)node ? here : node],
					 NR_OBJECTS);
			assert_true(set_policy(PLACEMENT_DEFAULT, 0));
			count();
			assert_int_equal(count_of[here], NR_OBJECTS);
		}
	if (!tried)
		skip();
}

/* Those of a cache that does not charge all of them. */
static void charged(void **state)
{
	struct kmem_group *g = kmem_group_create("policy", NULL, NULL);
	void *object;

	(void)state;
	assert_non_null(g);
	for (unsigned int node = 0; node < os.nr_nodes; node++) {
		if (!has_memory(node) || !set_policy(PLACEMENT_PREFERRED, 1ul << node))
			continue;
		object = kmem_cache_alloc_charged(cache, GFP_KERNEL, g);
		assert_int_equal(page_node(object), node);
		assert_ptr_equal(kmem_group_of(object), g);
		kmem_cache_free(cache, object);
	}
	set_policy(PLACEMENT_DEFAULT, 0);
	object = kmem_cache_alloc_charged(cache, GFP_KERNEL, g);
	assert_int_equal(page_node(object), os_node());
	assert_ptr_equal(kmem_group_of(object), g);
	kmem_cache_free(cache, object);
	kmem_group_put(g);
}

static void interleaved(void **state)
{
	unsigned int nodes = 0;
	unsigned long mask = 0;

	(void)state;
	for (unsigned int node = 0; node < os.nr_nodes; node++)
		if (has_memory(node)) {
			mask |= 1ul << node;
			nodes++;
		}
	for (int mode = PLACEMENT_INTERLEAVE; mode <= WEIGHTED_INTERLEAVE; mode += 3) {
		if (!set_policy(mode, mask))
			continue;
		count();
		for (unsigned int node = 0; node < os.nr_nodes; node++)
			assert_int_equal(count_of[node], mask >> node & 1 ? NR_OBJECTS / nodes : 0);
	}
	set_policy(PLACEMENT_DEFAULT, 0);
}

static int begin(void **state)
{
	if (setup(state))
		return -1;
	cache = make("policy", 64, no_samples());
	return 0;
}

static int finish(void **state)
{
	(void)state;
	kmem_cache_destroy(cache);
	return 0;
}

int test_policy(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bound_and_preferred),
		cmocka_unit_test(interleaved),
		cmocka_unit_test(charged),
	};

	if (has_debug_letter('S')) {
		print_message("skipped: guarded objects are on no certain node\n");
		return SKIPPED;
	}
	one_more_option("slab_strict_numa");
	return cmocka_run_group_tests_name("policy", tests, begin, finish);
}
