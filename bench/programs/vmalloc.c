/* SPDX-License-Identifier: MIT */
/*
 * The vmalloc benchmark: the loops of the kernel's test of large allocations, whose results changed
 * with sheaves. Each allocates a block, writes its first byte and frees it.
 *
 *   fix_size            blocks of --pages pages
 *   random_size_align   of 1 to --pages pages, aligned to a random power of two of at most a page
 *
 * Prints a line "from LIBRARY" if the allocator is a preloaded one, and ns of CPU time of a block
 * for each iteration but the first.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "allocators/sized.h"
#include "common/common.h"

#define PAGE	  4096u
#define LOG_PAGE  12
#define PAGES_MAX 512

enum loop {
	FIX_SIZE,
	RANDOM_SIZE_ALIGN
};

static const char *const loops[] = {"fix_size", "random_size_align", NULL};

struct options {
	size_t pages, blocks, iterations;
	const char *variant;
};

static void touch_and_free(volatile char *block)
{
	if (!block)
		bench_out_of_memory();
	*block = 1;
	sized_pages_free((void *)block);
}

static void run_fixed(const void *of)
{
	const struct options *options = of;
	size_t size = options->pages * PAGE, blocks = options->blocks;

	for (size_t i = 0; i < blocks; i++)
		touch_and_free(sized_pages(size, 1));
}

static void run_random(const void *of)
{
	const struct options *options = of;
	uint64_t state = BENCH_SEED;

	for (size_t i = 0; i < options->blocks; i++) {
		uint64_t chosen = bench_random(&state);

		touch_and_free(sized_pages(((chosen >> 32) % options->pages + 1) * PAGE,
					   (size_t)1 << ((chosen >> 16) % (LOG_PAGE + 1))));
	}
}

int main(int argc, char **argv)
{
	struct options o = {.pages = 1, .blocks = 50000, .iterations = 6, .variant = ""};
	const char *name = "fix_size";
	const struct bench_option table[] = {
		{"loop", NULL, 0, &name, NULL},
		{"pages", &o.pages, PAGES_MAX, NULL, NULL},
		{"blocks", &o.blocks, SIZE_MAX, NULL, NULL},
		{"iterations", &o.iterations, SIZE_MAX, NULL, NULL},
		{"variant", NULL, 0, &o.variant, NULL},
		{NULL, NULL, 0, NULL, NULL},
	};
	enum loop loop;

	bench_parse(argc, argv, table, "Measure one allocator; `sheaf bench vmalloc` runs this.\n");
	loop = (enum loop)bench_choice(argv[0], name, loops);
	bench_pin(bench_cpu(0));
	sized_start(o.variant);
	bench_iterate(o.iterations, bench_thread_time, loop == FIX_SIZE ? run_fixed : run_random,
		      &o, o.blocks);
	return 0;
}
