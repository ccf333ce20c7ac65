/* SPDX-License-Identifier: MIT */
/* Random numbers from a seed, which is not 0. */
#ifndef SHEAF_TESTS_RANDOM_H
#define SHEAF_TESTS_RANDOM_H

#include <stdint.h>

static inline uint64_t random_next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed * UINT64_C(0x2545f4914f6cdd1d);
}

static inline unsigned int random_below(uint64_t *seed, unsigned int n)
{
	return (unsigned int)((random_next(seed) >> 16) % n);
}

#endif
