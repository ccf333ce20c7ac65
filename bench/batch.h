/* SPDX-License-Identifier: MIT */
/*
 * The batch benchmark: allocate a batch of 64-byte objects, free it, repeat; objects are not
 * touched.
 *
 * Each allocator is a program of its own, so that every measurement begins in a fresh process: a
 * worker_*.c that defines `batch_allocator`, linked with batch.c (options, clock, main) and
 * count.c. The loop below is inlined into each of them, the allocator's two calls into the loop.
 */
#ifndef BENCH_BATCH_H
#define BENCH_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BATCH_OBJECT_SIZE 64
#define BATCH_MAX	  4096

struct batch_job {
	size_t batch;	       /* objects allocated before they are freed */
	size_t rounds;	       /* how often */
	void **objects;	       /* room for a batch */
	const uint32_t *order; /* in which they are freed; NULL: as they were allocated */
};

struct batch_allocator {
	/* What run() gets as its context; NULL after an error, which it has told. */
	void *(*open)(bool no_sheaf, int cpu);
	void (*run)(void *context, const struct batch_job *job);
	/* Before counting: make what cannot be single-stepped countable. May be NULL. */
	bool (*make_countable)(void);
	/* A call whose library is to be named in the output, or NULL. */
	void *(*call)(size_t size);
};

extern const struct batch_allocator batch_allocator;

static inline __attribute__((always_inline)) void
batch_run(void *context, const struct batch_job *job, void *(*alloc)(void *context),
	  void (*release)(void *context, void *object))
{
	const uint32_t *order = job->order;
	void **objects = job->objects;
	size_t batch = job->batch;

	for (size_t round = 0; round < job->rounds; round++) {
		for (size_t i = 0; i < batch; i++)
			objects[i] = alloc(context);
		if (order) {
			for (size_t i = 0; i < batch; i++)
				release(context, objects[order[i]]);
		} else {
			for (size_t i = 0; i < batch; i++)
				release(context, objects[i]);
		}
	}
}

#endif
