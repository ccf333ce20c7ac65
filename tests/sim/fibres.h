/* SPDX-License-Identifier: MIT */
/* The random operations of the conservation test's fibres, and the quiet times between them. */
#ifndef SHEAF_TESTS_SIM_FIBRES_H
#define SHEAF_TESTS_SIM_FIBRES_H

#include <stdbool.h>

struct storm {
	unsigned int fibres;
	unsigned int rounds;	 /* between which everything is quiet, and verified */
	unsigned int operations; /* of one fibre in one round */
	bool few_sheaves;	 /* small capacities and barns, for more slow paths */
	bool all_reached;	 /* a shrink reaches every CPU: membarrier is not refused */
	bool memory_refused;
	unsigned int retires; /* of 256 operations, these concern RCU */
	unsigned int drains;  /* of 256 operations, these are shrinks of the small cache */
	unsigned int budget;  /* bytes of sheaves; 0: the default */
	unsigned int forks;   /* of 4096 operations, so many are forks */
};

/* Make caches, do all rounds, free everything, and prove that nothing is left. */
void storm_run(const struct storm *storm);

#endif
