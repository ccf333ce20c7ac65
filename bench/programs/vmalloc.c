/* SPDX-License-Identifier: MIT */
/*
 * The vmalloc benchmark: the loops of the kernel's test of large allocations, whose figures moved
 * with sheaves. Each allocates a block, writes its first byte and frees it.
 *
 *   fix_size            blocks of --pages pages
 *   random_size_align   of 1 to --pages pages, aligned to a random power of two of at most a page
 *
 * Prints a line "from LIBRARY" if the allocator is a preloaded one, and ns of CPU time of a block for
 * each iteration but the first.
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

static void touch_and_free(volatile char *block)
{
	if (!block) {
		fprintf(stderr, "vmalloc: the allocator ran out of memory\n");
		exit(1);
	}
	*block = 1;
	sized_pages_free((void *)block);
}

static void run_fixed(size_t pages, size_t blocks)
{
	for (size_t i = 0; i < blocks; i++)
		touch_and_free(sized_pages(pages * PAGE, 1));
}

static void run_random(size_t pages, size_t blocks)
{
	uint64_t state = UINT64_C(0x9e3779b97f4a7c15);

	for (size_t i = 0; i < blocks; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		touch_and_free(sized_pages(((state >> 32) % pages + 1) * PAGE,
					   (size_t)1 << ((state >> 16) % (LOG_PAGE + 1))));
	}
}

int main(int argc, char **argv)
{
	size_t pages = 1, blocks = 50000, iterations = 6;
	const char *name = "fix_size", *variant = "";
	const struct bench_option table[] = {
		{"loop", NULL, 0, &name, NULL},
		{"pages", &pages, PAGES_MAX, NULL, NULL},
		{"blocks", &blocks, SIZE_MAX, NULL, NULL},
		{"iterations", &iterations, SIZE_MAX, NULL, NULL},
		{"variant", NULL, 0, &variant, NULL},
		{NULL, NULL, 0, NULL, NULL},
	};
	enum loop loop;

	bench_parse(argc, argv, table, "Measure one allocator; `sheaf bench vmalloc` runs this.\n");
	loop = (enum loop)bench_choice(argv[0], name, loops);
	bench_pin(bench_cpu(0));
	if (!sized_begin(variant))
		return 1;
	bench_print_origin(SIZED_CALL);
	for (size_t i = 0; i < iterations; i++) {
		double start = bench_thread_time();

		if (loop == FIX_SIZE)
			run_fixed(pages, blocks);
		else
			run_random(pages, blocks);
		if (i > 0)
			printf("%.4f\n", (bench_thread_time() - start) / (double)blocks);
	}
	return 0;
}
