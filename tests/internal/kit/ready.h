/* SPDX-License-Identifier: MIT */
/* The setup of a group of tests that need the library, but no cache. */
#ifndef SHEAF_TESTS_READY_H
#define SHEAF_TESTS_READY_H

#include "cache/process.h"

static inline int setup(void **state)
{
	(void)state;
	return caches_ready() ? 0 : -1;
}

#endif
