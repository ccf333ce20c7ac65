/* SPDX-License-Identifier: MIT */
/*
 * What a call costs on this machine: a direct one, and one through a pointer. Mitigations of
 * defects of the CPU make the second kind several times as dear on some machines.
 *
 * Prints a line for the `sheaf` command: "direct NS indirect NS sheaf WAY", with the time of a call
 * of an empty function, and the way in which this build's `sheaf` programs allocate.
 */
#include <stdio.h>
#include <stdlib.h>

#include <sheaf/slab.h>

#include "common/common.h"

#define CALLS  200000
#define ROUNDS 31

#ifdef SHEAF_HAS_SECTIONS
#define WAY "in place"
#else
#define WAY "called"
#endif

static __attribute__((noinline)) void empty(void)
{
	OTHER_THINGS;
}

/* Volatile: a compiler that knows the function calls it directly. */
static void (*volatile pointer)(void) = empty;

static double direct(void)
{
	double start = bench_thread_time();

	for (int i = 0; i < CALLS; i++)
		empty();
	return (bench_thread_time() - start) / CALLS;
}

static double indirect(void)
{
	double start = bench_thread_time();

	for (int i = 0; i < CALLS; i++)
		pointer();
	return (bench_thread_time() - start) / CALLS;
}

static int compare(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;

	return (a > b) - (a < b);
}

static double median(double *found)
{
	qsort(found, ROUNDS, sizeof(*found), compare);
	return found[ROUNDS / 2];
}

int main(void)
{
	double of_direct[ROUNDS], of_indirect[ROUNDS];

	bench_pin(bench_cpu(0));
	for (int i = 0; i < ROUNDS; i++) {
		of_direct[i] = direct();
		of_indirect[i] = indirect();
	}
	printf("direct %.3f indirect %.3f sheaf %s\n", median(of_direct), median(of_indirect), WAY);
	return 0;
}
