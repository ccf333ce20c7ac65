/* SPDX-License-Identifier: MIT */
/*
 * The programs that `sheaf sim scale` runs: one task on each CPU. Their accesses are instrumented,
 * too, and are counted as the program's own.
 *
 *   own batches   each task allocates N objects, then frees them in the same order; all CPUs have
 *                 had theirs at the same time once, or each began when the others had freed theirs
 *   cross         tasks 2i allocate, write a word and pass objects on through a ring, in groups;
 *                 tasks 2i + 1 read the word and free them
 *
 * Callers: sim/scale/.
 */
#ifndef SHEAF_SIM_SCALE_WORKLOADS_H
#define SHEAF_SIM_SCALE_WORKLOADS_H

#include <stdbool.h>
#include <stddef.h>

#include "sim/scale/allocators.h"

struct workload {
	const char *name, *what;
	size_t batch;	 /* of own batches */
	bool one_by_one; /* CPUs begin one after another, with what others have freed */
	bool in_pairs;	 /* an even number of tasks */
	bool far_apart;	 /* the two of a pair */
	void (*run)(unsigned int task);
};

/* The last one has no name. */
extern const struct workload workloads[];

/*
 * Before the tasks run on these CPUs: what they use, and a few rounds of the same at no cost, CPU
 * by CPU. Without these, all CPUs would wait in line for their first memory for most of a run.
 * False: no memory.
 */
bool workload_prepare(const struct workload *workload, const struct allocator *allocator,
		      void *context, const unsigned int *cpus, unsigned int tasks);

/* --- work.c: what workloads call; not instrumented ------------------------------------------ */

bool work_goes_on(void);
/* A turn of a loop that waits for another task. */
void work_wait(void);
/* Calls of the allocator that is measured: accesses meanwhile are not the program's. An operation
 * is an allocation and its free, and is counted at the free. */
void *work_alloc(const struct allocator *allocator, void *context);
void work_free(const struct allocator *allocator, void *context, void *object);

#endif
