/* SPDX-License-Identifier: MIT */
/*
 * A process with a heap of many GiB, whose profile somebody reads. It does not touch its blocks,
 * which 1024 stacks allocate in turn.
 *
 * Prints its resident bytes after that, and then makes slow calls, one of which answers the reader,
 * until its standard input ends; then prints the longest one, in ns of CPU time.
 */
#include <poll.h>
#include <sheaf/kmalloc.h>
#include <sheaf/slab.h>
#include <stdio.h>

#include "common/common.h"

#define BLOCK  ((size_t)16 << 10)
#define LEVELS 10

static size_t gib = 1;

typedef void *grow_fn(unsigned int, unsigned int);
static __attribute__((noinline)) grow_fn left, right;

static void *below(unsigned int path, unsigned int level)
{
	return level == LEVELS ? kmalloc(BLOCK, GFP_KERNEL)
			       : (path >> level & 1 ? right : left)(path, level + 1);
}

/* Not a tail call, which would leave no frame. */
#define DEFINE_GROW(name)                                                                          \
	static void *name(unsigned int path, unsigned int level)                                   \
	{                                                                                          \
		void *block = below(path, level);                                                  \
                                                                                                   \
		OTHER_THINGS;                                                                      \
		return block;                                                                      \
	}
DEFINE_GROW(left)
DEFINE_GROW(right)

static double answer(struct kmem_cache *cache)
{
	double began = bench_thread_time();

	kmem_cache_free(cache, kmem_cache_alloc(cache, GFP_KERNEL));
	return bench_thread_time() - began;
}

int main(int argc, char **argv)
{
	const struct bench_option table[] = {{"gib", &gib, 1024, NULL, NULL},
					     {NULL, NULL, 0, NULL, NULL}};
	struct pollfd input = {.fd = 0, .events = POLLIN};
	double took, longest = 0;
	struct kmem_cache *cache;

	bench_parse(argc, argv, table, "`sheaf bench profile` runs this.\n");
	for (unsigned int i = 0; i < (gib << 30) / BLOCK; i++)
		if (!below(i, 0))
			bench_out_of_memory();
	cache = kmem_cache_create("slow", 64, NULL, SLAB_NO_SHEAVES);
	if (!cache)
		bench_out_of_memory();
	printf("%zu\n", bench_resident());
	fflush(stdout);
	while (!poll(&input, 1, 1)) {
		took = answer(cache);
		longest = took > longest ? took : longest;
	}
	printf("%.0f\n", longest);
	return 0;
}
