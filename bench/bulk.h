/* SPDX-License-Identifier: MIT */
/*
 * The bulk probe: get and put back N objects of 64 bytes as one array, a million objects a turn.
 *
 * Each allocator is a program that defines GET and PUT on `objects` and `n`, and calls bulk_probe()
 * with the loop. Prints ns of CPU time for an object got and put, the median of 21 turns.
 */
#ifndef BENCH_BULK_H
#define BENCH_BULK_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BULK_TURNS   21
#define BULK_OBJECTS 1000000
#define BULK_MAX     4096

static void *objects[BULK_MAX];

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static inline double bulk_now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static inline unsigned int bulk_count(int argc, char **argv)
{
	long n = argc > 1 ? strtol(argv[1], NULL, 10) : 32;

	if (n < 1 || n > BULK_MAX) {
		fprintf(stderr, "usage: %s N    (1 to %d objects at once)\n", argv[0], BULK_MAX);
		exit(2);
	}
	return (unsigned int)n;
}

#define bulk_probe(n, GET, PUT)                                                                    \
	do {                                                                                       \
		double turns[BULK_TURNS];                                                          \
                                                                                                   \
		for (int turn = 0; turn < BULK_TURNS; turn++) {                                    \
			double start = bulk_now();                                                 \
                                                                                                   \
			for (unsigned int i = 0; i < BULK_OBJECTS / (n); i++) {                    \
				GET;                                                               \
				__asm__ volatile("" ::"r"(objects) : "memory");                    \
				PUT;                                                               \
			}                                                                          \
			turns[turn] = (bulk_now() - start) / (BULK_OBJECTS / (n) * (n));           \
		}                                                                                  \
		qsort(turns, BULK_TURNS, sizeof(double), by_value);                                \
		printf("%.3f\n", turns[BULK_TURNS / 2]);                                           \
	} while (0)

#endif
