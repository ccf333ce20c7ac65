/* SPDX-License-Identifier: MIT */
/*
 * Every schedule of a small program, one after the other.
 *
 * A schedule is which fibre continues at each step (os/step.h) where several could. Each runs in a
 * child, forked when the library and the program's caches are in the state from which all schedules
 * begin. First, each fibre runs up to its first step. Then the child repeats the choices of the
 * schedule before it, up to the last one that has an alternative, takes that, and lets the running
 * fibre continue as long as it can. So all schedules run, each of them once, in the order of a
 * depth-first search. None is left out because another one is equivalent to it, but these choices
 * do not exist:
 *
 *   a fibre that is about to take a lock that is held  cannot continue
 *   a fibre that sleeps briefly (os_sleep_briefly())   cannot continue before another one has made
 *                                                      a step that may change memory
 *
 * Fibre n runs on CPU n modulo the number of CPUs, and does not migrate. Sections are aborted by
 * preemption and by membarrier, not by signals. Waits with a timeout do not end. Neither memory nor
 * membarrier is refused. The clock and the random bits of a schedule follow from its choices; the
 * latter also decide which of several waiters is woken.
 *
 * Callers: tests/sim/.
 */
#ifndef SHEAF_SIM_ENUMERATE_H
#define SHEAF_SIM_ENUMERATE_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_ANY (~0u) /* no bound */

struct sim_program {
	unsigned int fibres; /* at most 8 */
	void (*body)(unsigned int fibre, void *data);
	void (*check)(void); /* when all fibres have ended: sim_fail() if something is wrong */
};

struct sim_schedules {
	uint64_t schedules, steps; /* the steps of all of them together */
	uint64_t longest;	   /* the most steps of one */
	double estimate;	   /* sim_sample(): of the number of all schedules */
	bool complete;		   /* none is left */
	bool failed;		   /* the last one; its steps are on stderr */
};

/*
 * After sim_start(), with everything quiet: run the schedules with at most so many preemptions,
 * which are switches away from a fibre that could continue; or the first `most` of them. Stops at
 * the first one that fails.
 */
struct sim_schedules sim_enumerate(const struct sim_program *program, unsigned int preemptions,
				   uint64_t most);

/*
 * Run n schedules, each choice taken by chance. A schedule that was chosen among a, b, c, ...
 * fibres stands for a * b * c ... schedules; the estimate is the mean of these products (Knuth
 * 1975).
 */
struct sim_schedules sim_sample(const struct sim_program *program, unsigned int preemptions,
				uint64_t n);

#endif
