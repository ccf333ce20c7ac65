/* SPDX-License-Identifier: MIT */
/* What workloads call; see workloads.h. */
#include "sim/scale/task.h"
#include "sim/scale/workloads.h"
#include "sim/sim.h"

bool work_goes_on(void)
{
	return tally_goes_on();
}

void work_wait(void)
{
	task_spend(MACHINE_pause);
	task_pass();
}

void *work_alloc(const struct allocator *allocator, void *context)
{
	struct task *task = task_now();
	void *object;

	task->side = TALLY_ALLOCATOR;
	object = allocator->alloc(context);
	task->side = TALLY_PROGRAM;
	if (!object)
		sim_fail("%s has no memory", allocator->name);
	return object;
}

void work_free(const struct allocator *allocator, void *context, void *object)
{
	struct task *task = task_now();

	task->side = TALLY_ALLOCATOR;
	allocator->free(context, object);
	task->side = TALLY_PROGRAM;
	tally_at(task->clock)->operations++;
}
