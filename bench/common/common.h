/* SPDX-License-Identifier: MIT */
/* What benchmark programs share: numbers from the command line, pinning, clocks, shuffling. */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An option, and where its value goes: the one of the three that is not NULL. */
struct bench_option {
	const char *name;
	size_t *number;
	size_t most; /* numbers are from 1 to this */
	const char **text;
	bool *flag;
};

#define BENCH_OPTIONS_MAX 16

/*
 * Read the command line by a table that ends with a NULL name. What is wrong, and --help, end the
 * program; `about` follows the list of options.
 */
void bench_parse(int argc, char **argv, const struct bench_option *table, const char *about);

/* Index of a text in a list that ends with NULL, or the end of the program. */
int bench_choice(const char *program, const char *text, const char *const *list);

/* The n-th of the CPUs this process may use (from 0; round again beyond the last). */
int bench_cpu(unsigned int n);
/* Keep the calling thread on this CPU. */
void bench_pin(int cpu);

/* ns: what this thread, this process ran; what has passed. */
double bench_thread_time(void);
double bench_process_time(void);
double bench_time(void);

/* Resident bytes of this process. */
size_t bench_resident(void);

/* A permutation of 0 ... n - 1, the same for the same seed. */
void bench_shuffle(uint32_t *order, size_t n, uint64_t seed);

/* Print "from LIBRARY", where the call comes from; nothing for NULL. */
void bench_print_origin(void *call);

#endif
