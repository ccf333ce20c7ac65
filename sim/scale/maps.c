/* SPDX-License-Identifier: MIT */
/* The workload mmap2; see workloads.h. This file is instrumented. */
#include <stdint.h>
#include <stdlib.h>

#include "sim/scale/workloads.h"

#define APART	   128
#define NODES	   3   /* that a map and its unmap replace */
#define NODE_WORDS 16  /* that are written in each: two lines */
#define AREA_SIZE  192 /* bytes */

struct tree {
	_Alignas(APART) uint64_t *nodes[NODES];
};

static struct tree *trees;
static void *areas; /* the other cache */

bool maps_prepare(void)
{
	const struct cache_request request = {
		.name = "areas", .size = AREA_SIZE, .capacity = running.workload->capacity};

	trees = aligned_alloc(APART, running.tasks * sizeof(*trees));
	areas = running.allocator->open(running.allocator, &request);
	return trees && areas;
}

static uint64_t *new_node(void)
{
	uint64_t *node = work_alloc(running.allocator, running.context);

	for (unsigned int word = 0; word < NODE_WORDS; word += 2)
		node[word] = word;
	return node;
}

void run_maps(unsigned int task)
{
	struct tree *tree = &trees[task];

	for (unsigned int i = 0; i < NODES; i++)
		tree->nodes[i] = new_node();
	while (work_goes_on()) {
		uint64_t *area = work_alloc(running.allocator, areas);

		*area = task;
		for (unsigned int i = 0; i < NODES; i++) {
			uint64_t *old = tree->nodes[i];

			tree->nodes[i] = new_node();
			work_retire(running.allocator, running.context, old);
		}
		work_for(running.workload->work);
		if (*area != task)
			abort();
		work_free(running.allocator, areas, area);
		work_did(1);
	}
}
