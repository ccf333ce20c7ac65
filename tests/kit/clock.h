/* SPDX-License-Identifier: MIT */
/*
 * A clock that the test controls: time passes when the test says so, in addition to the machine's
 * time or instead of it.
 *
 * It replaces clock_gettime(), which a statically linked library calls like any other function. The
 * parts of a program have one clock: its definitions are weak.
 */
#ifndef SHEAF_TESTS_CLOCK_H
#define SHEAF_TESTS_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CLOCK_SECOND UINT64_C(1000000000)

/* In ns; not 0 at the beginning, like any clock. */
__attribute__((weak)) _Atomic uint64_t clock_passed = 1000 * CLOCK_SECOND;
__attribute__((weak)) bool clock_stands; /* except for what the test adds */

__attribute__((weak)) int clock_gettime(clockid_t clock, struct timespec *now)
{
	bool monotonic = clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE;
	uint64_t ns;

	if (monotonic && clock_stands)
		*now = (struct timespec){0};
	else if (syscall(SYS_clock_gettime, clock, now))
		return -1;
	if (!monotonic)
		return 0;
	ns = (uint64_t)now->tv_nsec + atomic_load(&clock_passed);
	now->tv_sec += (time_t)(ns / CLOCK_SECOND);
	now->tv_nsec = (long)(ns % CLOCK_SECOND);
	return 0;
}

static inline void clock_pass_ms(unsigned int ms)
{
	atomic_fetch_add(&clock_passed, ms * UINT64_C(1000000));
}

#endif
