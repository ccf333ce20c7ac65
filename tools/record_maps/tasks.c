/* SPDX-License-Identifier: MIT */
/* See tasks.h. */
#include "tasks.h"

#include <stdlib.h>
#include <sys/ptrace.h>

struct tasks tasks;

struct task *task_find(pid_t tid)
{
	for (size_t i = 0; i < tasks.n; i++)
		if (tasks.list[i].tid == tid)
			return &tasks.list[i];
	return NULL;
}

struct task *task_add(pid_t tid, pid_t process, unsigned int space)
{
	if (tasks.n == tasks.room) {
		tasks.room = 2 * tasks.room + 16;
		tasks.list = realloc(tasks.list, tasks.room * sizeof(*tasks.list));
		if (!tasks.list)
			no_memory();
	}
	tasks.list[tasks.n] =
		(struct task){.tid = tid, .process = process, .space = space, .call.kind = NONE};
	return &tasks.list[tasks.n++];
}

unsigned int task_new_space(void)
{
	tasks.spaces++;
	tasks.holders = realloc(tasks.holders, (tasks.spaces + 1) * sizeof(*tasks.holders));
	if (!tasks.holders)
		no_memory();
	tasks.holders[tasks.spaces] = 0;
	return tasks.spaces;
}

void task_drop(struct task *task)
{
	*task = tasks.list[--tasks.n];
}

bool task_resume(const struct task *task, int signal)
{
	return !ptrace(PTRACE_SYSCALL, task->tid, 0, (long)signal);
}

void task_resume_call(struct task *task)
{
	if (!task_resume(task, 0))
		task->call.kind = NONE;
}

bool task_hold(struct task *task)
{
	pid_t holder = tasks.holders[task->space];

	task->waits = holder && holder != task->tid;
	if (!task->waits)
		tasks.holders[task->space] = task->tid;
	return !task->waits;
}

void task_let_go(struct task *task)
{
	task->call.kind = NONE;
	task->waits = false;
	if (!task->space || tasks.holders[task->space] != task->tid)
		return;
	tasks.holders[task->space] = 0;
	for (size_t i = 0; i < tasks.n; i++)
		if (tasks.list[i].waits && tasks.list[i].space == task->space) {
			task_hold(&tasks.list[i]);
			task_resume_call(&tasks.list[i]);
			return;
		}
}

bool task_others_have(unsigned int space, pid_t process)
{
	for (size_t i = 0; i < tasks.n; i++)
		if (tasks.list[i].space == space && tasks.list[i].process != process &&
		    !tasks.list[i].ending)
			return true;
	return false;
}
