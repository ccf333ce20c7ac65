/* SPDX-License-Identifier: MIT */
/*
 * Exact instruction counts without hardware counters: the parent single-steps a forked child.
 *
 * A restartable section cannot be stepped (each step aborts it), so the child gives up its rseq
 * registration before (`prepare`); its sections then run as plain code on the area it owns.
 */
#ifndef BENCH_COUNT_H
#define BENCH_COUNT_H

#include <stdbool.h>

struct counts {
	unsigned long long instructions;
	unsigned long long locked; /* lock prefix, or xchg with memory */
	unsigned long long rseq;   /* accesses to the rseq area */
	unsigned long long tls;	   /* any other access relative to the thread pointer */
};

/*
 * Call prepare(data) and then run(data) in a child, and count what run() executes. False after an
 * error, which it has told.
 */
bool count_steps(bool (*prepare)(void *data), void (*run)(void *data), void *data,
		 struct counts *counts);

#endif
