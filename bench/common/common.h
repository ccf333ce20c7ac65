/* SPDX-License-Identifier: MIT */
/* What benchmark programs share: their command line, pinning, clocks, pseudo-random numbers. */
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

/* Between calls a program does other things: no call's state may stay in registers for the next. */
#define OTHER_THINGS __asm__ volatile("" : : : "memory")

/*
 * Do it a number of times; after each but the first print a line of the clock's ns for each of
 * `items` in it.
 */
void bench_iterate(size_t iterations, double (*clock)(void), void (*once)(const void *options),
		   const void *options, size_t items);

/* From any thread: the others may be anywhere, so nothing is tidied up. */
__attribute__((noreturn)) void bench_out_of_memory(void);

/* The next of a series (xorshift) whose state is never 0. */
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

/* Print "from LIBRARY", where the call comes from; nothing for NULL. */
void bench_print_origin(void *call);

#endif
