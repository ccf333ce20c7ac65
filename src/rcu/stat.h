/* SPDX-License-Identifier: MIT */
/* Events of retired objects: see slab/stat.h. Callers: src/rcu/ and the layers above. */
#ifndef SHEAF_RCU_STAT_H
#define SHEAF_RCU_STAT_H

#include "percpu/stat.h"

#define RCU_EVENTS(OWN, X)                                                                         \
	OWN(X, free_rcu_sheaf, "objects retired into a CPU's rcu_free sheaf")                      \
	OWN(X, free_rcu_sheaf_fail, "objects retired without such a sheaf")                        \
	OWN(X, rcu_flush, "objects to slabs after their grace period")                             \
	OWN(X, rcu_over_limit, "times pending bytes were above the limit")

enum rcu_word {
	STAT_BEFORE_RCU = NR_PERCPU_WORDS - 1,
	RCU_EVENTS(STAT_WORD, ) NR_RCU_WORDS,
};

#endif
