/* SPDX-License-Identifier: MIT */
/*
 * Exact instruction counts without hardware counters: the parent single-steps a forked child.
 *
 * A restartable section cannot be stepped (each step aborts it), so the child first ends its rseq
 * registration (`prepare`); its sections then run as plain code on its own area.
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

/* Call prepare(data) and then run(data) in a child, and count the instructions of run(). Returns
 * false after an error, which it has reported. */
bool count_steps(bool (*prepare)(void *data), void (*run)(void *data), void *data,
		 struct counts *counts);

#endif
