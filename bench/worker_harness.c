/* SPDX-License-Identifier: MIT */
/* Batch worker without an allocator: pointers from an array. What the others cost beyond it is
 * theirs. */
#include "batch.h"

struct array {
	void *objects[BATCH_MAX];
	size_t next;
};

static void *open_array(bool no_sheaf, int cpu)
{
	static char memory[BATCH_MAX][BATCH_OBJECT_SIZE];
	static struct array array;

	(void)no_sheaf, (void)cpu;
	for (size_t i = 0; i < BATCH_MAX; i++)
		array.objects[i] = memory[i];
	return &array;
}

static void *alloc(void *context)
{
	struct array *array = context;

	return array->objects[array->next++ % BATCH_MAX];
}

static void release(void *context, void *object)
{
	(void)context;
	__asm__ volatile("" : : "r"(object) : "memory");
}

static void run(void *array, const struct batch_job *job)
{
	batch_run(array, job, alloc, release);
}

const struct batch_allocator batch_allocator = {
	.open = open_array,
	.run = run,
};
