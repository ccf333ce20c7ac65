/* SPDX-License-Identifier: MIT */
/*
 * The kvfree_rcu part of the vmalloc benchmark: allocate a block that is no slab object, write its
 * first byte, give it up; no reader runs.
 *
 *   plain   freed at once
 *   two     by kvfree_rcu() with two arguments, the block and its head; for a malloc, by call_rcu()
 *           and free() in the callback
 *   one     by kfree_rcu_mightsleep(), which needs no head; libsheaf only
 *
 * A barrier every ROUND blocks bounds what waits. Prints a line "from LIBRARY" if the allocator is a
 * preloaded one, and ns of CPU time of a block, the worker's too, for each iteration but the first.
 */
#include BENCH_URCU
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "allocators/sized.h"
#include "common/common.h"

#define ROUND 2048

struct block {
	struct rcu_head head;
	char byte;
};

enum way {
	PLAIN,
	TWO,
	ONE
};

static const char *const ways[] = {"plain", "two", "one", NULL};

#ifdef SIZED_RCU
#define retire_two(block) kvfree_rcu(block, head)
#define retire_one(block) kfree_rcu_mightsleep(block)
#define barrier()	  kvfree_rcu_barrier()
#define HAS_ONE		  true
#else
static void free_block(struct rcu_head *head)
{
	sized_pages_free(caa_container_of(head, struct block, head));
}
#define retire_two(block) call_rcu(&(block)->head, free_block)
#define retire_one(block) abort()
#define barrier()	  rcu_barrier()
#define HAS_ONE		  false
static bool sized_rcu_begin(void)
{
	return true;
}
#endif

static struct block *new_block(size_t size)
{
	struct block *block = sized_pages(size, 1);

	if (!block) {
		fprintf(stderr, "kvfree: the allocator ran out of memory\n");
		exit(1);
	}
	*(volatile char *)&block->byte = 1;
	return block;
}

static void run(enum way way, size_t size, size_t blocks)
{
	for (size_t i = 0; i < blocks; i++) {
		struct block *block = new_block(size);

		if (way == PLAIN)
			sized_pages_free(block);
		else if (way == TWO)
			retire_two(block);
		else
			retire_one(block);
		if (way != PLAIN && i % ROUND == ROUND - 1)
			barrier();
	}
	if (way != PLAIN)
		barrier();
}

int main(int argc, char **argv)
{
	size_t size = 4 * 4096, blocks = 2 * ROUND, iterations = 6;
	const char *name = "plain", *variant = "";
	const struct bench_option table[] = {
		{"way", NULL, 0, &name, NULL},
		{"size", &size, 1 << 24, NULL, NULL},
		{"blocks", &blocks, SIZE_MAX, NULL, NULL},
		{"iterations", &iterations, SIZE_MAX, NULL, NULL},
		{"variant", NULL, 0, &variant, NULL},
		{NULL, NULL, 0, NULL, NULL},
	};
	enum way way;

	bench_parse(argc, argv, table, "Measure one allocator; `sheaf bench vmalloc` runs this.\n");
	way = (enum way)bench_choice(argv[0], name, ways);
	if (size < sizeof(struct block) || (way == ONE && !HAS_ONE)) {
		fprintf(stderr, "%s: no such way of this allocator, or too small a block\n",
			argv[0]);
		return 2;
	}
	bench_pin(bench_cpu(0));
	rcu_register_thread();
	if (!sized_begin(variant) || !sized_rcu_begin())
		return 1;
	bench_print_origin(SIZED_CALL);
	for (size_t i = 0; i < iterations; i++) {
		double start = bench_process_time();

		run(way, size, blocks);
		if (i > 0)
			printf("%.4f\n", (bench_process_time() - start) / (double)blocks);
	}
	return 0;
}
