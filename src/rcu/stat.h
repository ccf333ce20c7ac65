/* SPDX-License-Identifier: MIT */
/* Events of retired objects: see slab/stat.h. Callers: src/rcu/ and the layers above. */
#ifndef SHEAF_RCU_STAT_H
#define SHEAF_RCU_STAT_H

#include "percpu/stat.h"

#define RCU_EVENTS(X)                                                                              \
	X(free_rcu_sheaf, STAT_BIT(free_rcu_sheaf), "objects retired into a CPU's rcu_free sheaf") \
	X(free_rcu_sheaf_fail, STAT_BIT(free_rcu_sheaf_fail),                                      \
	  "objects retired without such a sheaf")                                                  \
	X(rcu_flush, STAT_BIT(rcu_flush), "objects to slabs after their grace period")             \
	X(rcu_over_limit, STAT_BIT(rcu_over_limit), "times pending bytes were above the limit")

/* Each of these events has a word of its own. */
enum rcu_word {
	STAT_BEFORE_RCU = NR_PERCPU_WORDS - 1,
	RCU_EVENTS(STAT_WORD) NR_RCU_WORDS,
};

#endif
