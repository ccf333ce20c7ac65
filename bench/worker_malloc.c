/* SPDX-License-Identifier: MIT */
/* Batch worker: malloc and free, the C library's or those of a preloaded library. */
#include <stdlib.h>

#include "batch.h"

static void *open_malloc(bool no_sheaf, int cpu)
{
	static char context;

	(void)no_sheaf, (void)cpu;
	return &context;
}

static void *alloc(void *context)
{
	(void)context;
	return malloc(BATCH_OBJECT_SIZE);
}

static void release(void *context, void *object)
{
	(void)context;
	free(object);
}

static void run(void *context, const struct batch_job *job)
{
	batch_run(context, job, alloc, release);
}

const struct batch_allocator batch_allocator = {
	.open = open_malloc,
	.run = run,
	.call = malloc,
};
