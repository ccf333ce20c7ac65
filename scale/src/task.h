/* SPDX-License-Identifier: MIT */
/*
 * Tasks: fibres of the simulator with a CPU and a clock each, as discrete events.
 *
 *   task 0 (CPU 0)   ----own----own--| a line that it has not          it passes: the task with the
 *   task 1 (CPU 8)   --own-own-own-own-own-own| ...                    earliest clock goes on
 *
 * A task continues alone while it uses lines that it has, for QUANTUM at most. Before it requests
 * another line, takes a lock or waits, all tasks with earlier clocks go first. So lines and locks
 * are handed out in the order of time; a task may be ahead only with lines that no other task has.
 *
 * A task whose CPU is away (D4) continues on another one: it moves when it lets others go first,
 * but not in a section, nor while it holds a spinlock.
 *
 * Several tasks of a CPU run in turn: each for a time slice, or until it waits (cpus.c).
 *
 * Invariants
 *  T1. A task requests a line that it does not have only when its clock is the earliest.
 *  T2. At most one task of a CPU has a clock. It is not preempted in a section, nor while it
 *      `stays`.
 *  T3. A task that waits, for another one or for its CPU, has CLOCK_NEVER; the task that wakes it
 *      sets its clock.
 *
 * Callers: scale/src/.
 */
#ifndef SHEAF_SCALE_TASK_H
#define SHEAF_SCALE_TASK_H

#include "os/lock.h"
#include "scale/src/ahead.h"
#include "scale/src/machine.h"
#include "scale/src/tally.h"

struct task {
	unsigned int cpu;  /* it runs there now */
	unsigned int home; /* its CPU while that is not away */
	uint64_t clock;	   /* ps */
	uint64_t until;	   /* where it lets others go first */
	enum tally_side side;
	unsigned int slower; /* percent: own work, beside the other thread of the core */
	struct ahead ahead;  /* lines that it waits for */
	uint64_t section;    /* ps that the section in progress will still cost if it commits */
	/* Of scale/src/cpus.c: */
	struct task *next; /* that waits for the same CPU */
	uint64_t began;	   /* its time slice */
	unsigned int stays;
	/* Of scale/src/locks.c: */
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

/* Continue when all tasks with earlier clocks have passed this task's. */
void task_pass(void);
/* Wait until another task calls task_wake() with this one; the CPU may run others meanwhile. */
void task_block(void);
/* Like task_block(), in a loop that keeps the CPU. */
void task_spin(void);
/* The task continues at this time, or at its own clock if that is later. */
void task_wake(struct task *task, uint64_t at);
/* Wait for this long; the CPU may run others meanwhile. */
void task_sleep(uint64_t ps);

/* Spend time that has nothing to do with lines. */
void task_spend(enum machine_cost cost);
/* Like task_spend(), for work, which takes longer beside the other thread of a core. */
void task_work(struct task *task, enum machine_cost cost);
/* An access in a section. A section that commits costs what the machine file says; one that fails
 * first costs its accesses, as other code does. */
void task_work_in_section(struct task *task, bool write);

/* Set up the machine; the library may then be used by task_run()'s caller. Once per process. */
void task_start(const struct machine *machine, unsigned int tasks, uint64_t seed,
		const char *options);
/* Run body(i) as task i, on cpus[i], until all end. */
void task_run(const unsigned int *cpus, void (*body)(unsigned int i));

/* How much own work the tasks' CPUs do together, in CPUs with a core of their own: two threads of a
 * core count as less than two. */
double task_speed(void);

/* How often tasks have moved to another CPU. */
uint64_t task_moves(void);

/* --- cpus.c: which task runs on a CPU ------------------------------------------------------ */

/* All CPUs are idle. */
void cpus_start(void);
/* The task is ready to run from its clock on. */
void cpus_ready(struct task *task);
/* The running task leaves its CPU to the next one, by its own decision or because its time slice
 * ended. */
void cpus_leave(struct task *task, uint64_t at);
/* True if another task waits for the CPU, and this one has had its time slice. */
bool cpus_over(const struct task *task);
/* True if another task waits for the CPU. */
bool cpus_wanted(const struct task *task);

#endif
