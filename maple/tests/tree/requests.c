/* SPDX-License-Identifier: MIT */
/*
 * How stores get their nodes (pool.c): up to ONE_BY_ONE each by itself, more as a sheaf. Built with
 * both sets of rules (src/rules.h); the kernel's cache sees one single node, or a sheaf.
 */
#include "behaviour.h"
#include "kit/random.h"

enum {
	STORES = 20000,
	INDICES = 40000,
	MOST = 64 /* nodes of a request */
};

static struct maple_tree tree = MTREE_INIT(tree, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_USE_RCU);

/* Preallocated nodes belong to no tree: a state that remembers one must not take it for a node of
 * its tree. */
static unsigned int count_dead(const struct ma_state *mas)
{
	const struct maple_node *node = mas->alloc;
	unsigned int n = 0;

	for (; node; n++) {
		assert_true(node->meta & META_DEAD);
		node = (const struct maple_node *)(uintptr_t)(node->meta & ~META_DEAD);
	}
	return n;
}

static void look_at_request(const struct ma_state *mas)
{
	unsigned int n = (unsigned int)mas->node_request, single = count_dead(mas);

	assert_in_range(n, 1, MOST);
	assert_true(nodes_in_hand(mas) >= n); /* a sheaf may hold more */
	assert_int_equal(single, n > ONE_BY_ONE ? 0 : n);
	assert_true((mas->sheaf != NULL) == (n > ONE_BY_ONE));
}

static void few_one_by_one_more_as_a_sheaf(void **state)
{
	uint64_t random = 1;
	bool few = false, many = false;

	(void)state;
	for (int i = 0; i < STORES; i++) {
		unsigned long first = random_below(&random, INDICES);
		MA_STATE(mas, &tree, first, first + random_below(&random, 8));

		mas_lock(&mas);
		assert_int_equal(mas_preallocate(&mas, ENTRY(first), GFP_KERNEL), 0);
		if (mas.node_request)
			look_at_request(&mas);
		few |= mas.node_request > 0 && mas.node_request <= ONE_BY_ONE;
		many |= mas.node_request > ONE_BY_ONE;
		mas_store_prealloc(&mas, ENTRY(first));
		assert_int_equal(nodes_in_hand(&mas), 0);
		mas_unlock(&mas);
	}
	assert_true(few && many);
	done(&tree);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_one_by_one_more_as_a_sheaf),
	};

	provider_register();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
