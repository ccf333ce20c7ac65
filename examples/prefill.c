/* SPDX-License-Identifier: MIT */
/*
 * Allocate the worst case in advance: inserting into a search tree takes one node, or, if a leaf
 * splits, one node for every level. Once the insertion has begun, it must not fail.
 *
 * There are two ways to ensure that. Allocate the worst case in bulk and free the rest; or take a
 * prefilled sheaf, pop the needed nodes and return the sheaf, which usually costs a store or two,
 * however large the worst case is.
 *
 *     cc -O2 prefill.c -o prefill $(pkg-config --cflags --libs libsheaf)
 */
#include <sheaf/slab.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
	WORST = 32, /* nodes an insertion may take */
	TURNS = 200000
};

struct node {
	struct node *child[16];
};

static struct kmem_cache *nodes;

/* The number of nodes that this insertion takes: usually one, sometimes a few, rarely all of
 * them. */
static unsigned int needed(unsigned int turn)
{
	return turn % 1000 == 999 ? WORST : turn % 16 == 15 ? 4 : 1;
}

static int insert_by_bulk(unsigned int turn, struct node **used)
{
	void *all[WORST];
	unsigned int n = needed(turn);

	if (!kmem_cache_alloc_bulk(nodes, GFP_KERNEL, WORST, all))
		return -1;
	/* Nothing below can fail. */
	memcpy(used, all, n * sizeof(*all));
	kmem_cache_free_bulk(nodes, WORST - n, all + n);
	return (int)n;
}

static int insert_by_sheaf(unsigned int turn, struct node **used)
{
	struct slab_sheaf *sheaf = kmem_cache_prefill_sheaf(nodes, GFP_KERNEL, WORST);
	unsigned int n = needed(turn);

	if (!sheaf)
		return -1;
	/* Nothing below can fail. */
	for (unsigned int i = 0; i < n; i++)
		used[i] = kmem_cache_alloc_from_sheaf(nodes, GFP_NOWAIT, sheaf);
	kmem_cache_return_sheaf(nodes, GFP_KERNEL, sheaf);
	return (int)n;
}

static double time_of(int (*insert)(unsigned int turn, struct node **used))
{
	struct node *used[WORST];
	struct timespec begin, end;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (unsigned int turn = 0; turn < TURNS; turn++) {
		int n = insert(turn, used);

		if (n < 0)
			return -1;
		while (n > 0)
			kmem_cache_free(nodes, used[--n]);
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	return (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec);
}

int main(void)
{
	double bulk, sheaf;

	nodes = KMEM_CACHE(node, 0);
	if (!nodes)
		return 1;
	bulk = time_of(insert_by_bulk);
	sheaf = time_of(insert_by_sheaf);
	if (bulk < 0 || sheaf < 0)
		return 1;
	printf("%d insertions, each with %d nodes reserved:\n", TURNS, WORST);
	printf("  bulk allocation of the worst case  %.1f ns\n", bulk / TURNS);
	printf("  prefilled sheaf                    %.1f ns\n", sheaf / TURNS);
	kmem_cache_destroy(nodes);
	return 0;
}
