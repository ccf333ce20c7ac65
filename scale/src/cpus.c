/* SPDX-License-Identifier: MIT */
/*
 * Which task runs on a CPU: first come, first served. The running task's clock is in the order of
 * all clocks (clock.h); the others of its CPU have CLOCK_NEVER there until it is their turn.
 */
#include "scale/src/clock.h"
#include "scale/src/task.h"

static struct cpu {
	struct task *runs;	   /* NULL: idle, since `free_at` */
	struct task *first, *last; /* that wait for it */
	struct task *ran;
	uint64_t free_at;
} cpus[MACHINE_CPUS];

void cpus_start(void)
{
	for (unsigned int i = 0; i < MACHINE_CPUS; i++)
		cpus[i] = (struct cpu){0};
}

static struct cpu *cpu_of(const struct task *task)
{
	return &cpus[task->cpu];
}

/* The CPU is idle. */
static void run(struct cpu *cpu, struct task *task)
{
	uint64_t from = cpu->free_at;

	if (cpu->ran && cpu->ran != task)
		from += task_machine->cost[MACHINE_change];
	if (task->clock < from)
		task->clock = from;
	task->began = task->clock;
	cpu->runs = cpu->ran = task;
	clock_set(task_number(task), task->clock);
}

void cpus_ready(struct task *task)
{
	struct cpu *cpu = cpu_of(task);

	if (!cpu->runs) {
		run(cpu, task);
		return;
	}
	/* It spins, and has kept the CPU. */
	if (cpu->runs == task) {
		clock_set(task_number(task), task->clock);
		return;
	}
	task->next = NULL;
	*(cpu->first ? &cpu->last->next : &cpu->first) = task;
	cpu->last = task;
	clock_set(task_number(task), CLOCK_NEVER);
}

void cpus_leave(struct task *task, uint64_t at)
{
	struct cpu *cpu = cpu_of(task);
	struct task *next = cpu->first;

	clock_set(task_number(task), CLOCK_NEVER);
	cpu->runs = NULL;
	cpu->free_at = at;
	if (!next)
		return;
	cpu->first = next->next;
	run(cpu, next);
}

bool cpus_over(const struct task *task)
{
	return cpus_wanted(task) && task->clock - task->began >= task_machine->cost[MACHINE_slice];
}

bool cpus_wanted(const struct task *task)
{
	return cpu_of(task)->first != NULL;
}
