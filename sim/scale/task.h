/* SPDX-License-Identifier: MIT */
/*
 * Tasks: fibres of the simulator with a CPU and a clock each, as discrete events.
 *
 *   task 0 (CPU 0)   ----own----own--| a line that it has not          it passes: the task with the
 *   task 1 (CPU 8)   --own-own-own-own-own-own| ...                    earliest clock goes on
 *
 * A task goes on alone while it uses lines that it has, for QUANTUM at most; before it gets another
 * line, takes a lock or waits, it lets all those go first whose clocks are earlier. So lines and
 * locks are handed out in the order of time; a task may be ahead with what nobody else has.
 *
 * Invariants
 *  T1. A task gets a line that it does not have only when its clock is the earliest.
 *  T2. There is one task on a CPU. It is not preempted.
 *  T3. A task that waits for another one has CLOCK_NEVER; who wakes it sets its clock.
 *
 * Callers: sim/scale/.
 */
#ifndef SHEAF_SIM_SCALE_TASK_H
#define SHEAF_SIM_SCALE_TASK_H

#include "os/lock.h"
#include "sim/scale/machine.h"
#include "sim/scale/tally.h"

struct task {
	unsigned int cpu;
	uint64_t clock; /* ps */
	uint64_t until; /* where it lets others go first */
	enum tally_side side;
	/* Of sim/scale/locks.c: */
	struct os_lock *waits_for;
	const uint32_t *waits_on;
	uint64_t since;			/* when it began to wait */
	uint64_t taken_at[OS_RANK_MAX]; /* locks that it holds */
};

extern const struct machine *task_machine;

/* The running task; NULL: the caller of task_run(), whose work costs nothing. */
struct task *task_now(void);
unsigned int task_number(const struct task *task);
struct task *task_at(unsigned int number);
unsigned int task_count(void);

/* Go on when all tasks with earlier clocks have passed this task's. */
void task_pass(void);
/* Wait until another task calls task_wake() with this one. */
void task_block(void);
/* It goes on at this time, or at its own clock if that is later. */
void task_wake(struct task *task, uint64_t at);

/* Time passes that is none of the lines'. */
void task_spend(enum machine_cost cost);

/* Set up the machine; the library may then be used by task_run()'s caller. Once per process. */
void task_start(const struct machine *machine, unsigned int tasks, uint64_t seed,
		const char *options);
/* Run body(i) as task i, on cpus[i], until all end. */
void task_run(const unsigned int *cpus, void (*body)(unsigned int i));

#endif
