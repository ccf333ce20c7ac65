/* SPDX-License-Identifier: MIT */
/* What benchmark programs share: numbers from the command line, pinning, clocks, shuffling. */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <stddef.h>
#include <stdint.h>

/* A number from 1 to most, or the end of the program with exit status 2. */
size_t bench_number(const char *program, const char *text, size_t most);

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
