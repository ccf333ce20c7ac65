/* SPDX-License-Identifier: MIT */
/*
 * The scale benchmark: every thread repeatedly allocates a batch of objects and frees it; objects
 * are not touched. With --idle, it does so once, and then sleeps.
 *
 * Prints lines for the `sheaf` command: those of common/threads.h, and "resident KIB": the growth
 * of the process since the threads were ready and before the allocator was used.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocators/allocator.h"
#include "common/common.h"
#include "common/threads.h"

#define BATCH_MAX   4096
#define THREADS_MAX 4096
#define CACHED	    1024 /* objects that a thread's cache may hold in addition to a batch */

struct options {
	size_t batch, threads, size, capacity, window, windows;
	bool idle;
	const char *variant;
};

static struct options options = {
	.batch = 100, .threads = 1, .size = 64, .window = 3, .windows = 60, .variant = ""};
static void *context;
static void **objects; /* a batch per thread */

static const struct bench_option table[] = {
	{"batch", &options.batch, BATCH_MAX, NULL, NULL},
	{"threads", &options.threads, THREADS_MAX, NULL, NULL},
	{"size", &options.size, 1 << 20, NULL, NULL},
	{"capacity", &options.capacity, 4096, NULL, NULL},
	{"variant", NULL, 0, &options.variant, NULL},
	{"window", &options.window, 60000, NULL, NULL},
	{"windows", &options.windows, 100000, NULL, NULL},
	{"idle", NULL, 0, NULL, &options.idle},
	{NULL, NULL, 0, NULL, NULL},
};

static void run(struct bench_thread *thread)
{
	size_t batch = options.batch;
	void *cache = context, **array = objects + thread->index * batch;

	bench_thread_begin(thread->index);
	do {
		for (size_t i = 0; i < batch; i++) {
			array[i] = bench_alloc(cache);
			OTHER_THINGS;
			if (!array[i])
				bench_out_of_memory();
		}
		for (size_t i = 0; i < batch; i++) {
			bench_free(cache, array[i]);
			OTHER_THINGS;
		}
		bench_did(thread, batch);
	} while (!options.idle && bench_goes_on());
}

static void prepare(unsigned int index)
{
	memset(objects + index * options.batch, 0, options.batch * sizeof(*objects));
}

int main(int argc, char **argv)
{
	struct bench_work work = {.prepare = prepare, .run = run};
	size_t before;

	bench_parse(argc, argv, table, "Measure one allocator; `sheaf bench scale` runs this.\n");
	objects = bench_room(options.threads * options.batch * sizeof(*objects));
	work.threads = (unsigned int)options.threads;
	bench_threads_start(&work);
	before = bench_resident();
	context = bench_begin(options.size, options.threads * (options.batch + CACHED),
			      options.capacity, options.variant);
	bench_threads_run(options.window, options.idle ? 0 : options.windows);
	printf("resident %.0f\n", ((double)bench_resident() - (double)before) / 1024);
	return 0;
}
