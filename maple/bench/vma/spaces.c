/* SPDX-License-Identifier: MIT */
/* See spaces.h. */
#include "spaces.h"

#include <sheaf/stats.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/common.h"

#define HOLE (4 * SPACE_PAGE)

#ifdef THREE_TIER
void spaces_begin(unsigned int capacity)
{
	(void)capacity;
	rcu_register_thread();
}

void spaces_thread_end(void)
{
	three_tier_hand_over_all();
	rcu_unregister_thread();
}
#else
struct kmem_cache *node_cache(void); /* src/tree.h, linked statically */

/* For `sheaf bench`, with the measurements. */
static void print_counters(void)
{
	fflush(stdout);
	sheaf_stats_print(STDOUT_FILENO, SHEAF_STATS_JSON);
}

void spaces_begin(unsigned int capacity)
{
	rcu_register_thread();
	if (sheaf_urcu_register(0))
		exit(1);
	if (capacity && (kmem_cache_set_sheaf_capacity(vma_cache(), capacity) ||
			 kmem_cache_set_sheaf_capacity(node_cache(), capacity)))
		exit(1);
	if (getenv("BENCH_COUNTERS"))
		atexit(print_counters);
}

void spaces_thread_end(void)
{
	rcu_unregister_thread();
}
#endif

void spaces_thread_begin(void)
{
	rcu_register_thread();
}

struct space_request spaces_mapping(unsigned int i)
{
	/* 1 to 16 pages each; a hole after every third. */
	unsigned long above = i / 3 * HOLE, pages = 1 + i * 7 % 16;

	for (unsigned int j = 0; j <= i % 16; j++)
		above += (1 + j * 7 % 16) * SPACE_PAGE;
	above += i / 16 * (16 * 17 / 2) * SPACE_PAGE;
	return (struct space_request){.address = SPACES_HIGH - above,
				      .length = pages * SPACE_PAGE,
				      .flags = i % 7,
				      .file = i % 4,
				      .page = i * 100ul,
				      .fixed = true};
}

void spaces_make(struct space *space, unsigned int n)
{
	space_init(space, SPACES_LOW, SPACES_HIGH);
	for (unsigned int i = 0; i < n; i++) {
		struct space_request request = spaces_mapping(i);

		if (space_map(space, &request) < 0)
			bench_out_of_memory();
	}
	if (space->vmas != n) {
		fprintf(stderr, "%lu VMAs of %u mappings\n", space->vmas, n);
		exit(1);
	}
}
