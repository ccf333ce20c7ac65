/* SPDX-License-Identifier: MIT */
/* Common parts of the benchmark programs: command line, pinning, clocks, pseudo-random numbers. */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An option. One of the three pointers is not NULL: its value goes there. */
struct bench_option {
	const char *name;
	size_t *number;
	size_t most; /* numbers are from 1 to this */
	const char **text;
	bool *flag;
};

#define BENCH_OPTIONS_MAX 16

/* Parse the command line with a table that ends with a NULL name. Errors and --help end the
 * program; `about` follows the list of options. */
void bench_parse(int argc, char **argv, const struct bench_option *table, const char *about);

/* Index of a text in a list that ends with NULL; ends the program if it is not there. */
int bench_choice(const char *program, const char *text, const char *const *list);

/* The n-th CPU that this process may use (counted from 0; after the last one the count starts
 * again). */
int bench_cpu(unsigned int n);
/* Keep the calling thread on this CPU. */
void bench_pin(int cpu);

/* ns: CPU time of this thread, CPU time of this process, time of day. */
double bench_thread_time(void);
double bench_process_time(void);
double bench_time(void);

/* Resident bytes of this process. */
size_t bench_resident(void);
/* Resident and swapped bytes, without those that the process has released (MADV_FREE) but the
 * system has not yet taken. Exact: statm's count may lag by some pages per CPU. */
long bench_resident_now(void);

/*
 * Between calls a program does other work: no state of a call may stay in registers for the next.
 */
#define OTHER_THINGS __asm__ volatile("" : : : "memory")

/* Run a function several times; after each run but the first print a line with the clock's ns per
 * item. */
void bench_iterate(size_t iterations, double (*clock)(void), void (*once)(const void *options),
		   const void *options, size_t items);

/* End the program, from any thread. Other threads may be anywhere, so nothing is cleaned up. */
__attribute__((noreturn)) void bench_out_of_memory(void);

/* The next number of a series (xorshift) whose state is never 0. */
static inline uint64_t bench_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

#define BENCH_SEED UINT64_C(0x9e3779b97f4a7c15)

/* A permutation of 0 ... n - 1, the same for the same seed. */
void bench_shuffle(uint32_t *order, size_t n, uint64_t seed);

/* Print "from LIBRARY", the library of the call; nothing for NULL. */
void bench_print_origin(void *call);

#endif
