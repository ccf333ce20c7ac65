/* SPDX-License-Identifier: MIT */
/* What workloads and the kernel's sheaves call; see workloads.h, kernel/kernel.h. */
#include "scale/src/kernel/kernel.h"
#include "scale/src/periods.h"
#include "scale/src/task.h"
#include "scale/src/workloads.h"
#include "sim/state.h"

bool work_goes_on(void)
{
	return tally_goes_on();
}

void work_wait(void)
{
	struct task *task = task_now();

	if (cpus_wanted(task)) {
		task_sleep(task_machine->cost[MACHINE_pause]);
		return;
	}
	task_spend(MACHINE_pause);
	task_pass();
}

uint64_t work_now(void)
{
	return task_now()->clock / 1000;
}

void work_sleep_until(uint64_t ns)
{
	if (work_now() < ns)
		task_sleep(ns * 1000 - task_now()->clock);
}

void work_no_more_memory(void)
{
	sim.config.memory = sim.committed;
	sim_faults(true);
}

void work_for(unsigned int ns)
{
	struct task *task = task_now();

	task->clock += ns * UINT64_C(10) * (100 + task->slower);
}

enum tally_side work_side(enum tally_side side)
{
	struct task *task = task_now();
	enum tally_side was = TALLY_PROGRAM;

	if (task) {
		was = task->side;
		task->side = side;
	}
	return was;
}

void *work_alloc(const struct allocator *allocator, void *context)
{
	enum tally_side side = work_side(TALLY_ALLOCATOR);
	void *object = allocator->alloc(context);

	work_side(side);
	if (!object)
		sim_fail("%s has no memory", allocator->name);
	return object;
}

void work_free(const struct allocator *allocator, void *context, void *object)
{
	enum tally_side side = work_side(TALLY_ALLOCATOR);

	allocator->free(context, object);
	work_side(side);
}

void work_retire(const struct allocator *allocator, void *context, void *object)
{
	enum tally_side side = work_side(TALLY_ALLOCATOR);

	allocator->retire(context, object);
	periods_pass();
	work_side(side);
}

void work_did(unsigned int operations)
{
	tally_at(task_now()->clock)->operations += operations;
}

/* --- the kernel's sheaves ------------------------------------------------------------------- */

void kernel_stay(void)
{
	struct task *task = task_now();

	if (task)
		task->stays++;
}

void kernel_go(void)
{
	struct task *task = task_now();

	if (task)
		task->stays--;
}

void kernel_work(void)
{
	struct task *task = task_now();

	if (task)
		task_work(task, MACHINE_section);
}
