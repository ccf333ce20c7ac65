/* SPDX-License-Identifier: MIT */
/* How likely a sample is. */
#ifndef SHEAF_TESTS_CHANCE_H
#define SHEAF_TESTS_CHANCE_H

#include <stddef.h>

/* 1 - exp(-size / mean), for an object of this size and one sample in `mean` bytes. exp(-x) is
 * (1 - x / n)^n, for a large n. */
static inline double sample_chance(size_t size, double mean)
{
	double x = (double)size / mean, power = 1 - (x < 100 ? x : 100) / (1 << 24);

	for (int i = 0; i < 24; i++)
		power *= power;
	return 1 - power;
}

#endif
