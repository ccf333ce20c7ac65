/* SPDX-License-Identifier: MIT */
/*
 * The kvfree_rcu part of the vmalloc benchmark: allocate a block that is no slab object, write its
 * first byte, and free it in one of these ways; no reader runs.
 *
 *   plain   freed immediately
 *   two     by kvfree_rcu() with two arguments, the block and its head; for a malloc, by call_rcu()
 *           and free() in the callback
 *   one     by kfree_rcu_mightsleep(), which needs no head; libsheaf only
 *
 * A barrier every ROUND blocks bounds the number of waiting blocks. Prints a line "from LIBRARY" if
 * the allocator is a preloaded one, and then, for each iteration but the first, ns of CPU time per
 * block, including the worker's.
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

	if (!block)
		bench_out_of_memory();
	*(volatile char *)&block->byte = 1;
	return block;
}

struct options {
	enum way way;
	size_t size, blocks, iterations;
	const char *variant;
};

static void run(const void *of)
{
	const struct options *options = of;
	enum way way = options->way;

	for (size_t i = 0; i < options->blocks; i++) {
		struct block *block = new_block(options->size);

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
	struct options o = {.size = 4 * 4096, .blocks = 2 * ROUND, .iterations = 6, .variant = ""};
	const char *way = "plain";
	const struct bench_option table[] = {
		{"way", NULL, 0, &way, NULL},
		{"size", &o.size, 1 << 24, NULL, NULL},
		{"blocks", &o.blocks, SIZE_MAX, NULL, NULL},
		{"iterations", &o.iterations, SIZE_MAX, NULL, NULL},
		{"variant", NULL, 0, &o.variant, NULL},
		{NULL, NULL, 0, NULL, NULL},
	};

	bench_parse(argc, argv, table, "Measure one allocator; `sheaf bench vmalloc` runs this.\n");
	o.way = (enum way)bench_choice(argv[0], way, ways);
	if (o.size < sizeof(struct block) || (o.way == ONE && !HAS_ONE)) {
		fprintf(stderr, "%s: no such way of this allocator, or too small a block\n",
			argv[0]);
		return 2;
	}
	bench_pin(bench_cpu(0));
	rcu_register_thread();
	sized_start(o.variant);
	if (!sized_rcu_begin())
		return 1;
	bench_iterate(o.iterations, bench_process_time, run, &o, o.blocks);
	return 0;
}
