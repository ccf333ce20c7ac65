/* SPDX-License-Identifier: MIT */
/* See tasks.h. */
#include "tasks.h"

#include <errno.h>
#include <signal.h>
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
	tasks.space = realloc(tasks.space, (tasks.spaces + 1) * sizeof(*tasks.space));
	if (!tasks.space)
		no_memory();
	tasks.space[tasks.spaces] = (struct space){0};
	return tasks.spaces;
}

void task_drop(struct task *task)
{
	*task = tasks.list[--tasks.n];
}

/* A task that was killed in a stop is on its way to the exit stop, or already there. */
static bool was_killed(pid_t tid)
{
	siginfo_t stop;

	if (ptrace(PTRACE_GETSIGINFO, tid, 0, &stop))
		return errno == ESRCH;
	return stop.si_signo == SIGTRAP && stop.si_code == (SIGTRAP | PTRACE_EVENT_EXIT << 8);
}

bool task_resume(const struct task *task, int signal)
{
	if (!task->ending && was_killed(task->tid))
		return false;
	return !ptrace(PTRACE_SYSCALL, task->tid, 0, (long)signal);
}

void task_resume_call(struct task *task)
{
	if (!task_resume(task, 0))
		task->call.kind = NONE;
}

bool task_hold(struct task *task)
{
	pid_t holder = tasks.space[task->space].holder;

	task->waits = holder && holder != task->tid;
	if (!task->waits)
		tasks.space[task->space].holder = task->tid;
	return !task->waits;
}

void task_let_go(struct task *task)
{
	task->call.kind = NONE;
	task->waits = false;
	if (!task->space || tasks.space[task->space].holder != task->tid)
		return;
	tasks.space[task->space].holder = 0;
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
