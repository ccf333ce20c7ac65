/* SPDX-License-Identifier: MIT */
/* Points where something may fail (os/should_fail.h) fail now and then. Which ones depends on the
 * seed and on their order only. The program includes this file once. */
#ifndef SHEAF_TESTS_REFUSE_SOME_H
#define SHEAF_TESTS_REFUSE_SOME_H

#include "kit/hooks.h"

static struct {
	unsigned int percent;
	uint64_t seed, points, refused;
} refuse_some;

static bool refuse_next(const char *point)
{
	uint64_t mixed =
		(__atomic_fetch_add(&refuse_some.points, 1, __ATOMIC_RELAXED) + refuse_some.seed) *
		UINT64_C(0x9e3779b97f4a7c15);

	(void)point;
	mixed = (mixed ^ mixed >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
	if ((mixed >> 40) % 100 >= __atomic_load_n(&refuse_some.percent, __ATOMIC_RELAXED))
		return false;
	__atomic_fetch_add(&refuse_some.refused, 1, __ATOMIC_RELAXED);
	return true;
}

/* From now on this many of 100 fail. */
static inline void refuse_begin(unsigned int percent)
{
	__atomic_store_n(&refuse_some.percent, percent, __ATOMIC_RELAXED);
	hook_fail_by(percent ? refuse_next : NULL);
}

#endif
